"""Attention operators of ONNX Runtime."""
