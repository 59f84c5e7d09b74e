"""What a frontend has to agree with: a table of layers, worked out by hand, and whole networks of PyTorch."""
