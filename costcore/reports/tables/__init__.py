"""Reports as tables: which rows and columns, in which form."""
