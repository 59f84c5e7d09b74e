"""Operators of the ONNX standard by neighbouring families: their rows, and the shapes of their results."""
