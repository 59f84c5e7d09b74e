"""The capture: how every operator that PyTorch runs in a thread reaches the recording."""
