"""Fused operators of ONNX Runtime."""
