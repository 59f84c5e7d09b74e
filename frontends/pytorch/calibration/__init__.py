"""Calibration: measure chains of operators on a device, so that the time of networks can be estimated."""
