"""Settings fitted to tasks: back-tests, calibration, training, explanations."""
