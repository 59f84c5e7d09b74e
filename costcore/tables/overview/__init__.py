"""What ``print``, notebooks and pages show of a result: its figures, its tables and its remarks."""
