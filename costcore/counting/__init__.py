"""From calls to costs."""
