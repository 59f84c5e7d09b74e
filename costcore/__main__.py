"""``python -m costcore``: the command line."""

import sys

from costcore.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
