"""Kernels of a company called Acme. Importing the package registers them with PyTorch."""

from acme_kernels.kernels import linear, linear_scan

__all__ = ["linear", "linear_scan"]
