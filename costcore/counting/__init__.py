"""Costs of calls: computed by calculators, and evaluated for values of symbolic dimensions."""
