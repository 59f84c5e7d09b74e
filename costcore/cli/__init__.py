"""The command line: ``costcore MODEL``, ``costcore diff``, ``costcore check`` and ``costcore table``."""
