"""Numbers, units and names as text."""
