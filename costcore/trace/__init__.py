"""A captured run: its calls, what holds for all of them, and what frontends record them into."""
