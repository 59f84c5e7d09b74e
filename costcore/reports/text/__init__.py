"""Numbers, units, names and error messages as text."""
