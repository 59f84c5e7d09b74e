"""Quantized operators of ONNX Runtime."""
