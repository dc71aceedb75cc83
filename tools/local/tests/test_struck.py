"""What a run with chaos must have met, and that it goes on for it: pure parts, and a run that nothing struck."""

import sys
import threading
import time

import pytest

from icefall_local.demo import DemoOptions, Job
from icefall_local.generator import Pace, Plan
from icefall_local.launch import Running
from icefall_local.struck import LEAST_RECORDS, held_back, never_struck
from icefall_local.supervisor import Options
from icefall_local.terminal import Terminal
from icefall_local.watch import Watcher
from icefall_local.workspace import Workspace

_ALL = Options(committers=2, kill_writers=True, kill_committers=True)
_STRUCK = {"DuplicateBatches": 1, "TrimmedBatches": 1, "CommitConflicts": 1}


def missing(asked, writers=1, committers=1, **counted):
    functions = {"writer": {"kills_in_flight": writers}, "committer": {"kills_in_flight": committers}}
    return never_struck(asked, functions, {**_STRUCK, **counted})


def test_where_all_struck_nothing_is_missing():
    assert missing(_ALL) == []


@pytest.mark.parametrize(
    ("spared", "said"),
    [
        ({"writers": 0}, "no writer was killed at work"),
        ({"committers": 0}, "no committer was killed at work"),
        ({"DuplicateBatches": 0}, "duplicates_skipped"),
        ({"TrimmedBatches": 0}, "trims"),
        ({"CommitConflicts": 0}, "conflicts"),
    ],
)
def test_each_thing_that_was_asked_for_and_never_struck_is_named(spared, said):
    (one,) = missing(_ALL, **spared)
    assert said in one


def test_what_nobody_asked_for_is_not_missing():
    nothing = dict(writers=0, committers=0, DuplicateBatches=0, TrimmedBatches=0, CommitConflicts=0)
    assert missing(Options(), **nothing) == []
    assert len(missing(Options(duplicates=True), **nothing)) == 2
    assert len(missing(Options(committers=3), **nothing)) == 1
    assert missing(Options(committers=2, trigger="queue"), **nothing) == []
    assert len(missing(Options(committers=2, trigger="queue", kill_committers=True), **nothing)) == 4
    assert len(missing(Options(kill_writers=True), **nothing)) == 3
    assert missing(Options(kill_writers=True, committers=2, hostile=7), **nothing) == ["no writer was killed at work"]


def test_only_a_run_of_some_size_that_asks_for_chaos_holds_records_back():
    assert held_back(_ALL, LEAST_RECORDS) == LEAST_RECORDS // 10
    assert held_back(_ALL, LEAST_RECORDS - 1) == 0
    assert held_back(Options(hostile=7), LEAST_RECORDS) > 0
    assert held_back(Options(), 1_000_000) == 0


def test_held_back_records_come_slowly_until_they_are_let_go():
    pace, stop = Pace(Plan("b", "t", 1, 1_000, 0, 1, held_back=100, held_back_s=10.0)), threading.Event()
    assert pace.next(0, 20_000) == 900, "all others come first"
    assert not pace.reached.is_set()
    assert pace.next(900, 20_000) == 3, "four times a second"
    assert pace.reached.is_set()
    started = time.monotonic()
    pace.wait(3, stop)
    assert 0.25 < time.monotonic() - started < 2.0
    pace.let_go.set()
    assert pace.next(903, 20_000) == 97
    started = time.monotonic()
    pace.wait(97, stop)
    assert time.monotonic() - started < 0.2


def run_that_nothing_strikes(records):
    options = DemoOptions(records, held_back_s=2.0, stack=_ALL)
    with Running(Workspace.here(), options.stack, print) as running:
        Watcher(running.stack).stop_chaos()
        return Job(running.stack, options, Terminal(sys.stderr)).run()


def test_a_run_that_nothing_struck_ends_badly_and_says_so():
    result = run_that_nothing_strikes(LEAST_RECORDS)
    assert not result.right
    assert all(reading.right for reading in result.readings)
    said = result.summary()
    for name in ("writer", "committer"):
        assert f"problem: chaos was asked for, and in a run of 10,000 records no {name} was killed at work" in said
    assert "every record stands exactly once, but not all is as it should be" in said


def test_a_run_that_is_too_small_to_be_struck_only_says_what_it_did_not_meet():
    result = run_that_nothing_strikes(2_000)
    assert result.right, result.summary()
    assert "remark: chaos was asked for, and in a run of 2,000 records no writer was killed at work" in result.summary()
    assert result.summary().endswith("every record stands exactly once")
