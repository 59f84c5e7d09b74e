"""Shape rules of operators on strings, sequences and maps."""
