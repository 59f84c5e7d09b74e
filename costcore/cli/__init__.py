"""The command line: ``costcore MODEL``, and the commands of :mod:`costcore.cli.commands`."""

SUCCESS, FAILURE, USAGE_ERROR, INTERRUPTED = 0, 1, 2, 130
"""The exit codes."""

COMPLETING = "_ARGCOMPLETE"
"""The environment variable with which a shell asks what may follow on a command line; argcomplete defines it."""
