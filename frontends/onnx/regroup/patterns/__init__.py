"""The patterns of nodes that exporters write for one operator."""
