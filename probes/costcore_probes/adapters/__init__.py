"""The tools under test, one file each. A file imports its tool only inside the functions that call it."""
