"""Recurrent layers and cells, and layers that carry a state along a sequence."""
