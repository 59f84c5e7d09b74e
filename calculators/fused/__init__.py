"""Operators that inference engines fuse from several.

Values between the fused operators are neither written nor read.
"""
