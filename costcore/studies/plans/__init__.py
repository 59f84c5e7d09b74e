"""Plans of a training step on many devices: what each way to distribute it needs, and how long it takes at least."""
