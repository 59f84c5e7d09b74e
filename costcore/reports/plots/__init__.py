"""Pictures of a report for papers and notebooks, drawn by matplotlib."""
