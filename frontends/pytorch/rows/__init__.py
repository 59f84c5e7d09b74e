"""The mapping rules of PyTorch's operators, one module per operator family."""
