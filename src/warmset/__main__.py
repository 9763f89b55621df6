"""`python -m warmset` is the `warmset` command."""

import sys

from warmset.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
