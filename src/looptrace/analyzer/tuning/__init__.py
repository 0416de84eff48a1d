"""Settings fitted to tasks: back-tests, calibration, promises, explanations."""
