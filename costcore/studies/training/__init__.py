"""Training: FLOPs of steps and runs, utilization of devices, published rules, thresholds."""
