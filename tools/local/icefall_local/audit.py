"""The third proof: `icefall audit` reads the topic itself and holds every record against the ledger, dead letters and files.

The readers compare what stands in the tables with what the generator produced; this one takes nothing from the generator. It is
the operator's own program, with the functions' settings, but reaches the parts themselves: what stands before them
belongs to the functions, and counts or falsifies what these send.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icefall_local.stack import Stack

NAMED_AT_MOST = 5
"""Stretches of each kind that are named in the summary; all are counted."""

_FAULTY = {
    "unsettled",
    "released",
    "missing",
    "altered",
    "doubled",
    "letter_lost",
    "letter_doubled",
    "row_lost",
    "row_doubled",
}


class AuditFailed(Exception):
    """The topic could not be audited; the text says why."""


@dataclass(frozen=True)
class Audited:
    """What the audit found."""

    proved: bool
    records: int
    seconds: float
    cpu_seconds: float
    faults: list[str]
    """What is wrong, and what keeps the rest from being proved."""
    named: list[str]
    """Topic, partition and offsets of what is not there exactly once."""

    @classmethod
    def of(cls, answer: dict[str, Any], topic: str, cpu_seconds: float) -> Audited:
        named = [_named(run, topic) for run in answer["listed"] if run["kind"] in _FAULTY]
        faults = [*answer["faults"], *answer["doubts"]]
        return cls(answer["proved"], answer["records_read"], answer["seconds"], cpu_seconds, faults, named)


def audit(stack: Stack, program: Path, isolation: str) -> Audited:
    """Audits the main job's topic, whose pipeline has drained: what is settled nowhere is lost, and not still to come."""
    command = [program, "--json", "audit", stack.topic, "--isolation", isolation, "--drained", "--list", str(NAMED_AT_MOST)]
    before = _children_cpu()
    done = subprocess.run(command, capture_output=True, text=True, env=_environment(stack))
    cpu_seconds = _children_cpu() - before
    if done.returncode not in (0, 1, 3) or not done.stdout:
        raise AuditFailed(done.stderr.strip() or f"it ended with {done.returncode}")
    found = Audited.of(json.loads(done.stdout), stack.topic, cpu_seconds)
    if found.proved is not (done.returncode == 0):
        raise AuditFailed(f"it ended with {done.returncode}, and says otherwise: {done.stderr.strip()}")
    return found


def _children_cpu() -> float:
    """CPU time of the children that have ended, all threads of them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _environment(stack: Stack) -> dict[str, str]:
    return {
        **os.environ,
        "ICEFALL_SETTINGS": stack.settings,
        "ICEFALL__AUDIT__BOOTSTRAP": stack.kafka_bootstrap,
        "ICEFALL__CATALOG__URI": stack.catalog.direct_endpoint,
        "ICEFALL__STORE__ENDPOINT": stack.store.direct_endpoint,
        "ICEFALL__OPS__ENDPOINT": stack.ops.direct_endpoint,
        "ICEFALL__QUEUE__ENDPOINT": stack.queue.direct_endpoint,
    }


def _named(run: dict[str, Any], topic: str) -> str:
    first, last = run["first"], run["last"]
    offsets = str(first) if first == last else f"{first}-{last}"
    detail = f" {run['detail']}" if run.get("detail") else ""
    return f"{run['kind']}: {topic}/{run['partition']}/{offsets}{detail}"
