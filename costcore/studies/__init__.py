"""Studies: questions that need several captures or reports."""
