"""Matrix products: linear layers, batched, bilinear, grouped and sparse products, and their gradients."""
