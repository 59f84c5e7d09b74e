"""Costs of a run by call and by module, and remarks on calls that are not counted."""
