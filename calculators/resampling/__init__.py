"""Resizing and sampling by interpolation, and its gradients."""
