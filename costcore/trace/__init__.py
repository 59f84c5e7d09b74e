"""A captured run: its calls, the properties of the whole run, and the recorder into which frontends write."""
