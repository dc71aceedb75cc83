"""What an audit costs: the operator's program, built for release, over the topic and the tables of a main job that has ended.

What it costs besides the records (settings, the ledger's objects, metadata, one request for each data file) is in it, as it is
in every audit; the more records, the less it weighs.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from icefall_local import launch
from icefall_local.audit import AuditFailed, audit
from icefall_local.demo import DemoFailed, DemoOptions, Job
from icefall_local.supervisor import Options
from icefall_local.terminal import Terminal
from icefall_local.workspace import Unusable, Workspace

RECORDS = 1_000_000
_AUDITS = 5
"""Their median counts."""


def measure(workspace: Workspace, programs: Path, terminal: Terminal) -> int:
    """Records per second of CPU time, of the programs in this folder."""
    options, program = Options(functions=str(programs)), programs / "icefall"
    with launch.Running(workspace, options, terminal.step) as running:
        try:
            Job(running.stack, DemoOptions(records=RECORDS, stack=options), terminal, workspace).run()
            audits = [audit(running.stack, program, "read_committed") for _ in range(_AUDITS)]
        except (DemoFailed, AuditFailed) as problem:
            raise Unusable(str(problem)) from problem
    if not all(found.proved for found in audits):
        raise Unusable(f"an audit did not prove the job: {audits}")
    return round(statistics.median(found.records / found.cpu_seconds for found in audits))
