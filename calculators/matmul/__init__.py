"""Linear layers and matrix products, and their gradients."""
