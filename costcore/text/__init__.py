"""Numbers, units, attributes and names as text."""
