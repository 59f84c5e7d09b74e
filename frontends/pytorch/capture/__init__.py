"""Capture: how PyTorch is made to report every operator that runs."""
