"""Quantized values: conversions, operators on them, and weights packed into few bits.

*Dequantizing* a value is its conversion to a real number.
"""
