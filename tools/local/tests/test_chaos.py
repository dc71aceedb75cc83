"""Chaos: what its draws may be, that a kill meets work, and that a lost poller loses nothing."""

import asyncio
import json
import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from messages import FakeMessage

from icefall_local import scheduler
from icefall_local.chaos import CopyPlan, Kill, KillPlan, Wanted, strike
from icefall_local.event_source_mapping import MappingConfig, Poller
from icefall_local.execution_environment import FunctionConfig
from icefall_local.repoll import Rebalancing
from icefall_local.supervisor import Options
from icefall_local.trigger import TRIGGERS
from icefall_local.watch import metric_sums


def test_any_kind_of_chaos_counts_and_none_is_none():
    assert not Wanted().any
    assert Wanted(copies=True).any and Wanted(copies=True).victims == ()
    assert Wanted(kill_writers=True, kill_committers=True).victims == ("writer", "committer")


def test_kills_follow_from_the_seed_and_take_turns():
    def drawn(seed):
        plan = KillPlan(("writer", "committer"), random.Random(seed), (2.0, 6.0))
        return [plan.next() for _ in range(40)]

    assert drawn(1) == drawn(1) != drawn(2)
    kills = drawn(1)
    for pair in zip(kills[::2], kills[1::2], strict=True):
        assert {kill.function for kill in pair} == {"writer", "committer"}
    assert all(2.0 <= kill.pause_s <= 6.0 and 0.0 <= kill.moment < 1.0 for kill in kills)
    assert len({kill.function for kill in kills[::2]}) == 2, "the order within a turn is drawn"


def test_each_message_is_copied_at_most_once_and_a_copy_never():
    plan = CopyPlan(random.Random(3))
    queued = [(f"m{number}", f"body {number}") for number in range(50)]
    bodies = []
    for now in range(200):
        plan.look(queued, float(now))
        for body in plan.take_due(float(now)):
            bodies.append(body)
            copy = f"copy of {body}"
            plan.sent(copy)
            queued.append((copy, body))
    assert len(bodies) == len(set(bodies)) > 0
    assert plan.due == []


def test_some_copies_come_at_once_and_some_late():
    plan = CopyPlan(random.Random(3))
    for number in range(100):
        plan.look([(f"m{number}", f"body {number}")], 0.0)
    at_once = plan.take_due(0.0)
    assert 20 < len(at_once) < 80
    assert all(2.0 <= copy.at <= 6.0 for copy in plan.due)
    assert len(plan.take_due(6.0)) == 100 - len(at_once)


class Function:
    """A function whose invocations begin and end as the test says."""

    typical_s = 0.02

    def __init__(self, working):
        self.working = working
        self.killed = []

    def kill_one(self, chance, busy_only=False):
        if busy_only and not self.working:
            return False
        self.killed.append(self.working)
        return True


def test_a_kill_waits_for_work_to_interrupt():
    async def struck():
        function = Function(working=False)
        asyncio.get_running_loop().call_later(0.1, lambda: setattr(function, "working", True))
        assert await strike(function, Kill("f", 0.0, 0.5), random.Random(1), patience_s=3.0)
        return function.killed

    assert asyncio.run(struck()) == [True]


def test_a_kill_has_the_patience_for_invocations_that_are_short_and_seldom():
    async def at_work_now_and_then(function):
        while True:
            for function.working, seconds in ((False, 0.3), (True, 0.03)):
                await asyncio.sleep(seconds)

    async def struck():
        function = Function(working=False)
        function.typical_s = 1.0
        work = asyncio.ensure_future(at_work_now_and_then(function))
        assert await strike(function, Kill("f", 0.0, 0.9), random.Random(1), patience_s=20.0)
        work.cancel()
        return function.killed

    assert asyncio.run(struck()) == [True]


def test_a_kill_is_patient_for_longer_than_two_batching_windows():
    for name, trigger in TRIGGERS.items():
        stack = Options(**{"trigger": name, **trigger.pace})
        assert stack.chaos.kill_patience_s > 2 * stack.window_s


def test_a_function_that_stays_idle_is_killed_all_the_same():
    function = Function(working=False)
    assert asyncio.run(strike(function, Kill("f", 0.0, 0.5), random.Random(1), patience_s=0.1))
    assert function.killed == [False]


class Scheduled:
    """A function that notes when its schedule starts it, on a clock that only waiting moves."""

    def __init__(self, enough):
        self.config = FunctionConfig("committer", Path("bootstrap"))
        self.now, self.ticks, self.enough = 0.0, [], enough

    async def sleep(self, seconds):
        self.now += seconds

    def invoke_later(self, payload):
        self.ticks.append(self.now)
        if len(self.ticks) == self.enough:
            raise asyncio.CancelledError


def test_schedules_of_different_phases_start_committers_in_turn(monkeypatch):
    ticks = []
    for phase in (0.0, 1.0):
        function = Scheduled(enough=3)
        monkeypatch.setattr(scheduler.asyncio, "sleep", function.sleep)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(scheduler.run(function, 2.0, phase))
        ticks += function.ticks
    assert ticks == [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]


def test_generations_share_all_partitions_out_and_differ():
    rebalancing = Rebalancing(range(4), 1_000, random.Random(5))
    drawn = []
    for _ in range(60):
        drawn.append(rebalancing.generation())
        while not rebalancing.lost(failed=False):
            pass
    for one in drawn:
        assert sorted(partition for share in one.shares for partition in share) == [0, 1, 2, 3]
        assert 1 <= one.batch_size <= 1_000
    assert len({one.batch_size for one in drawn}) == 4
    assert len({one.shares for one in drawn}) > 5
    assert {len(one.shares) for one in drawn} == {1, 2, 3, 4}
    assert drawn[0].successes <= 3 < min(one.successes for one in drawn[1:])


def test_a_generation_ends_after_its_successes_once():
    rebalancing = Rebalancing(range(4), 1_000, random.Random(5))
    for _ in range(5):
        successes = rebalancing.generation().successes
        answers = [rebalancing.lost(failed=False) for _ in range(successes + 5)]
        assert answers.index(True) == successes - 1 and answers.count(True) == 1
    failed = [rebalancing.lost(failed=True) for _ in range(200)]
    assert 60 < failed.count(True) < 140


def test_what_is_missing_of_the_successes_is_counted_on_when_a_failure_ends_a_generation():
    rebalancing = Rebalancing(range(4), 1_000, random.Random(5))
    rebalancing.generation()
    while not rebalancing.lost(failed=False):
        pass
    for left in range(rebalancing.generation().successes - 1, 0, -1):
        assert not rebalancing.lost(failed=False)
        assert rebalancing.generation().successes == left
    assert rebalancing.lost(failed=False)


CONFIG = MappingConfig("my-topic", "f", "b", "g", batch_size=10, window_s=0.0, first_pause_s=0.0)


class Topic:
    """One partition of a broker: what is committed stands, what was only polled comes again."""

    def __init__(self, count):
        self.messages = [FakeMessage(0, offset) for offset in range(count)]
        self.committed = 0

    def source(self):
        return Source(self)


class Source:
    def __init__(self, topic):
        self.topic, self.at = topic, topic.committed

    def poll(self, at_most, seconds):
        served = self.topic.messages[self.at : self.at + at_most]
        self.at += len(served)
        return served

    def commit(self, next_offsets):
        self.topic.committed = next_offsets[0]


@pytest.mark.parametrize("answer", [None, "boom"], ids=["it had succeeded", "it had failed"])
def test_a_lost_poller_stores_nothing_and_ends_its_generation(answer):
    topic, stop, asked = Topic(30), threading.Event(), []
    one = Poller(CONFIG, topic.source(), lambda _: answer, stop, lost=lambda failed: asked.append(failed) is None)
    assert not one.one_batch()
    assert stop.is_set()
    assert asked == [answer is not None]
    assert (topic.committed, one.progress.batches, one.progress.repolls) == (0, 0, 1)


def test_every_record_is_delivered_whatever_is_lost_and_boundaries_change():
    chance, topic, delivered = random.Random(9), Topic(500), []
    rebalancing = Rebalancing([0], 40, random.Random(9))

    def function(payload):
        if chance.random() < 0.2:
            return "killed"
        delivered.append(payload)
        return None

    generations = 0
    while topic.committed < 500:
        drawn, ended = rebalancing.generation(), threading.Event()
        generations += 1
        one = Poller(replace(CONFIG, batch_size=drawn.batch_size), topic.source(), function, ended, lost=rebalancing.lost)
        while not ended.is_set() and topic.committed < 500:
            one.one_batch()
    assert generations > 3
    offsets = [offset for payload in delivered for offset in offsets_of(payload)]
    assert set(offsets) == set(range(500))
    assert len(offsets) > 500, "a loss after a success delivers records a second time"
    again = [batch for batch in map(offsets_of, delivered) if any(offsets.count(offset) > 1 for offset in batch)]
    assert any(len({offsets.count(offset) for offset in batch}) > 1 for batch in again), "and in other boundaries"


def offsets_of(payload):
    return [record["offset"] for group in json.loads(payload)["records"].values() for record in group]


def test_counts_are_summed_over_metric_lines_alone(tmp_path):
    log = tmp_path / "committer.log"
    log.write_text(
        '{"_aws":{},"CommitConflicts":2,"TrimmedBatches":1}\n'
        '{"message":"CommitConflicts","CommitConflicts":100}\n'
        "plain text with _aws and CommitConflicts\n"
        '{"_aws":{},"CommitConflicts":[1,2]}\n'
        '{"_aws":{},"CommitConf'
    )
    assert metric_sums(log, ("CommitConflicts", "TrimmedBatches", "DuplicateBatches")) == {
        "CommitConflicts": 5,
        "TrimmedBatches": 1,
        "DuplicateBatches": 0,
    }
    assert metric_sums(tmp_path / "none.log", ("CommitConflicts",)) == {"CommitConflicts": 0}
