"""An audit of the formulas: expectations derived by hand from the counting rules, without the calculators at hand."""
