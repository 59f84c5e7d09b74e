"""Costs by call and by module of a run, and what the numbers leave out."""
