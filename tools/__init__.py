"""Scripts of the repository; not installed."""
