"""Mapping rules from PyTorch's operators to canonical operators, one module per operator family."""
