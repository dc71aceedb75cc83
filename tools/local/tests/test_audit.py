"""The audit's answer as the demo takes it: what is said is believed only where the exit code agrees."""

import json
import sys
from types import SimpleNamespace

import pytest

from icefall_local.audit import AuditFailed, audit
from icefall_local.demo import Result

ANSWER = {
    "proved": True,
    "faults": [],
    "doubts": [],
    "records_read": 12,
    "seconds": 0.5,
    "listed": [{"kind": "gone", "partition": 0, "first": 10, "last": 11, "count": 2}],
}
MISSING = {"kind": "missing", "partition": 3, "first": 7, "last": 9, "count": 3}


def stack():
    part = SimpleNamespace(direct_endpoint="http://127.0.0.1:1")
    return SimpleNamespace(
        settings="icefall.toml", topic="clicks", kafka_bootstrap="127.0.0.1:2", catalog=part, store=part, ops=part, queue=part
    )


def answering(folder, answer, code):
    """A program in the place of the operator's tool."""
    script = folder / "answer.py"
    script.write_text(
        "import os, sys\n"
        "assert sys.argv[1:4] == ['--json', 'audit', 'clicks'], sys.argv\n"
        "assert '--drained' in sys.argv, sys.argv\n"
        "assert os.environ['ICEFALL__AUDIT__BOOTSTRAP'] == '127.0.0.1:2'\n"
        f"print({json.dumps(answer)!r})\n"
        f"sys.exit({code})\n"
    )
    program = folder / "icefall"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {script} \"$@\"\n")
    program.chmod(0o755)
    return program


def test_what_is_proved_has_its_figures(tmp_path):
    found = audit(stack(), answering(tmp_path, ANSWER, 0), "read_committed")
    assert (found.proved, found.records, found.faults, found.named) == (True, 12, [], [])
    assert found.cpu_seconds >= 0
    result = Result({}, [], [], [], {}, found)
    assert result.right
    assert result.as_json()["audit_proved"] is True
    assert result.as_json()["audited_records"] == 12


def test_what_is_missing_is_named_and_the_demo_is_not_right(tmp_path):
    answer = {**ANSWER, "proved": False, "faults": ["3 are MISSING"], "listed": [*ANSWER["listed"], MISSING]}
    found = audit(stack(), answering(tmp_path, answer, 1), "read_committed")
    assert found.named == ["missing: clicks/3/7-9"]
    result = Result({}, [], [], [], {}, found)
    assert not result.right
    assert "icefall audit: missing: clicks/3/7-9" in result.summary()
    assert "NOT every record stands exactly once" in result.summary()


def test_what_can_not_be_proved_is_not_right_either(tmp_path):
    answer = {**ANSWER, "proved": False, "doubts": ["1 delete files may hide rows"]}
    found = audit(stack(), answering(tmp_path, answer, 3), "read_committed")
    assert (found.proved, found.faults) == (False, ["1 delete files may hide rows"])


@pytest.mark.parametrize(("answer", "code"), [(ANSWER, 3), (ANSWER, 2), (ANSWER, 1), ({**ANSWER, "proved": False}, 0)])
def test_a_program_that_contradicts_itself_proves_nothing(tmp_path, answer, code):
    with pytest.raises(AuditFailed, match=f"ended with {code}"):
        audit(stack(), answering(tmp_path, answer, code), "read_committed")
