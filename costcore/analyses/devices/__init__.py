"""Devices: what a processor can do at most, from TOML files with their sources."""
