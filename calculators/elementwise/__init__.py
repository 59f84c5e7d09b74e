"""Functions of single elements, with broadcasting, and their gradients."""
