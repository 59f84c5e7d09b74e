"""The version of this tool, which every report names."""

__version__ = "0.1.0"
