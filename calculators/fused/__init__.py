"""Operators that inference engines fuse from several: epilogues, experts, transformer layers."""
