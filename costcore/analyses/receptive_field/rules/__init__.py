"""The rule of each operator, by families. Operators whose calculators are ``element_wise`` need none."""
