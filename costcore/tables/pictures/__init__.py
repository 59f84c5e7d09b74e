"""Pictures of amounts, as marks and axes."""
