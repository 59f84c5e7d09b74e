"""Named counting conventions: what another tool prints for the same network, from the same capture."""
