"""A loop is likely to come, by a model that was trained on earlier ones."""
