"""``python -m sandbox_native``."""

import sys

from sandbox_native.cli import main

if __name__ == "__main__":
    sys.exit(main())
