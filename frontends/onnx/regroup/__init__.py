"""Pattern matching: counts as one operator what an exporter decomposed into several nodes."""
