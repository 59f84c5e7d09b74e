"""Signatures and attributes of operators, by the schemas of ONNX and of ONNX Runtime."""
