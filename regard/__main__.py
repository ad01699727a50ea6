"""python -m regard: the command line without its script."""

import sys

from regard.cli import main

if __name__ == "__main__":
    sys.exit(main())
