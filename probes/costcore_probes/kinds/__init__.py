"""The probes, one file for each kind or two."""
