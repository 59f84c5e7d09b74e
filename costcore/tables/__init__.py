"""Reports as tables in CSV, Markdown, plain text and color."""
