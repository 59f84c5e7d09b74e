"""Studies: what is asked of several captures."""
