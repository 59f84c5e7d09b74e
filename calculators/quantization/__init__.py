"""Quantization: conversions, operators on quantized values, and weights packed into few bits."""
