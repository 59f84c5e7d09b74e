"""The entry points of the library: estimate, the hook, and tables of models."""
