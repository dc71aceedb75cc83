"""`python -m icefall_local.bench [--json]`: the command line, see `run`."""

import sys

from icefall_local.bench.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
