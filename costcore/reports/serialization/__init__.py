"""Reports as JSON files: written, read back, and validated."""
