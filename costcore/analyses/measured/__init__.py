"""Measured time of calls beside their bound: where the time of a run goes."""
