"""Operators on strings, tokens and encoded data, in the domains of ONNX Runtime and of its extensions."""
