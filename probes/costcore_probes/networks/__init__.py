"""Public architectures in plain PyTorch, one file each, written from their papers."""
