"""Pooling over windows and over regions of interest, and its gradients."""
