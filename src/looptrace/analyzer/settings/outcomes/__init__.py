"""Where it is known from whether runs were solved."""
