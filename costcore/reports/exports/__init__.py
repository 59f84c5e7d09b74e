"""Reports in the formats of other tools."""
