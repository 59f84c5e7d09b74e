"""What a notebook shows of a report, and what ``print(report)`` prints: totals, dearest types, status, modules."""
