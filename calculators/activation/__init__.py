"""Activation functions and softmax.

Attributes such as slopes and bounds are constants and cost nothing.
"""
