"""Reports as data, and what is shown of one."""
