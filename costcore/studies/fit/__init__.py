"""Whether a model fits a device: what it needs, by how much too much, and what would make it fit."""
