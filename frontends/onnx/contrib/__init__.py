"""Operators that ONNX Runtime adds to the standard: inputs, constraints, shape rule and rows of each."""
