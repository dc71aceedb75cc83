"""Lets the tests use the tools that `cargo xtask` starts the local stack with."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "local"))
