"""Normalization of activations and weights, and its gradients."""
