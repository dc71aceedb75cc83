"""`python -m icefall_local`: the command line, see `cli`."""

import sys

from icefall_local.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
