"""The report of a run: sums by call, operator and module, as data, tables, files and HTML."""
