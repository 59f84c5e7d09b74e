"""Resizing and sampling by interpolation, and its gradients.

Interpolation weights and positions are index arithmetic and cost nothing.
"""
