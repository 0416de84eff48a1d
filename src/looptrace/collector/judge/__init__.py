"""Language models that are asked for an opinion."""
