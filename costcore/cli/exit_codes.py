"""The exit codes of the command line."""

SUCCESS, FAILURE, USAGE_ERROR, INTERRUPTED = 0, 1, 2, 130
