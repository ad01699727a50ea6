"""The command line's door: `regard` and `python -m regard`."""

import os
import sys


def main() -> int:
    """Set what torch reads only while it is loaded, then run the command line."""
    if "OMP_WAIT_POLICY" not in os.environ:
        # threads that share a product wait for each other by spinning, 300,000 rounds unless told
        # otherwise: where another program takes a core away, every product waits for its turn
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from regard.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
