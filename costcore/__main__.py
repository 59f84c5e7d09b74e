"""Run the command line as ``python -m costcore``."""

import sys

from costcore.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
