"""Lets the tests be run by `pytest` from anywhere, with the tools importable as `cargo xtask` has them."""

import sys
from pathlib import Path

_HERE = Path(__file__).parent
for folder in (_HERE, _HERE.parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from brokers import EVERYTHING  # noqa: E402

collect_ignore = [] if EVERYTHING else ["test_apache_kafka.py", "test_audit_signed_in.py", "test_crash_points.py"]
"""Java is only needed by who asks for all tests."""
