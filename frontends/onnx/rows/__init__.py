"""Rows of the operators of the ONNX standard, by family."""
