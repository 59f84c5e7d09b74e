"""What a run cost, for people and programs: sums, tables, trees, files and pages."""
