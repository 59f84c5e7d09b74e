"""The meter of training: model FLOPs per second, MFU and HFU of the steps that really run."""
