"""The version of costcore, which every report includes."""

__version__ = "0.1.0"
