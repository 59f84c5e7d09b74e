"""Signatures and constraints of operators, and their full names."""
