"""Reports as JSON, written and read back."""
