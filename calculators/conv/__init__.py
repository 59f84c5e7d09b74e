"""Convolution over any number of spatial axes, and its gradients."""
