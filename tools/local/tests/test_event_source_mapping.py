"""The mapping's rules: what closes a batch, what is retried, what is committed, and when."""

import json
import threading
import time

import pytest
from messages import FakeMessage

from icefall_local.event_source_mapping import CannotDeliver, MappingConfig, NotCommitted, Poller


class FakeSource:
    """Serves the given messages, each once, then nothing; remembers every commit."""

    def __init__(self, messages, clock=None):
        self.messages = list(messages)
        self.commits = []
        self.clock = clock

    def poll(self, at_most, seconds):
        served, self.messages = self.messages[:at_most], self.messages[at_most:]
        if not served and self.clock is not None:
            self.clock.now += seconds
        return served

    def commit(self, next_offsets):
        self.commits.append(dict(next_offsets))


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Function:
    """A function that answers with what it was told to, then with success; remembers every payload."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.payloads = []

    def __call__(self, payload):
        self.payloads.append(payload)
        return self.answers.pop(0) if self.answers else None

    def offsets(self, number):
        groups = json.loads(self.payloads[number])["records"].values()
        return [record["offset"] for group in groups for record in group]


def poller(source, function, clock, stop=None, **changes):
    settings = {"topic": "my-topic", "function": "f", "bootstrap_servers": "b", "consumer_group": "g", "first_pause_s": 0.001}
    config = MappingConfig(**{**settings, "longest_pause_s": 0.002, **changes})
    return Poller(config, source, function, stop or threading.Event(), clock)


def messages(count, partition=0, size=10):
    return [FakeMessage(partition, offset, b"x" * size) for offset in range(count)]


def test_a_batch_closes_at_its_size():
    clock, function = Clock(), Function()
    one = poller(FakeSource(messages(25), clock), function, clock, batch_size=10)
    while one.one_batch():
        if len(function.payloads) == 3:
            break
    assert [len(function.offsets(number)) for number in range(3)] == [10, 10, 5]


def test_a_batch_that_is_not_full_waits_for_its_window_from_its_first_record():
    clock, function = Clock(), Function()
    one = poller(FakeSource(messages(3), clock), function, clock, window_s=2.0)
    assert one.one_batch()
    assert 2.0 <= clock.now < 2.2
    assert function.offsets(0) == [0, 1, 2]


def test_a_batch_closes_before_its_payload_is_too_large_and_loses_nothing():
    clock, function = Clock(), Function()
    one = poller(FakeSource(messages(40, size=600), clock), function, clock, max_payload=10_000)
    while sum(len(function.offsets(number)) for number in range(len(function.payloads))) < 40:
        one.one_batch()
    assert max(map(len, function.payloads)) <= 10_000
    assert len(function.payloads) > 3
    assert sum((function.offsets(number) for number in range(len(function.payloads))), []) == list(range(40))


def test_the_real_limit_is_six_mebibytes_of_json():
    clock, function = Clock(), Function()
    one = poller(FakeSource(messages(5_000, size=2_000), clock), function, clock)
    one.one_batch()
    assert 6_291_456 - 3_200 < len(function.payloads[0]) <= 6_291_456


def test_a_failed_batch_is_sent_again_as_the_same_bytes_and_only_then_committed():
    clock, function = Clock(), Function(*["boom"] * 50)
    source = FakeSource(messages(10), clock)
    one = poller(source, function, clock)
    assert one.one_batch()
    assert len(function.payloads) == 51
    assert len(set(function.payloads)) == 1
    assert source.commits == [{0: 10}]
    assert one.progress.failures == 50


def test_offsets_are_committed_after_the_function_succeeded():
    clock, seen = Clock(), []
    source = FakeSource([*messages(3), *messages(2, partition=1)], clock)
    one = poller(source, lambda _payload: seen.append(list(source.commits)), clock)
    one.one_batch()
    assert seen == [[]]
    assert source.commits == [{0: 3, 1: 2}]


def test_nothing_is_committed_when_it_is_stopped_while_the_function_fails():
    clock, stop = Clock(), threading.Event()
    source = FakeSource(messages(3), clock)

    def fail(_payload):
        stop.set()
        return "boom"

    assert not poller(source, fail, clock, stop).one_batch()
    assert source.commits == []


class ForgetfulSource(FakeSource):
    """Its first commits fail, as when the broker is gone: after a rewind it serves what was served since the start."""

    def __init__(self, messages, clock, failures):
        super().__init__(messages, clock)
        self.served, self.failures = [], failures

    def poll(self, at_most, seconds):
        now = super().poll(at_most, seconds)
        self.served += now
        return now

    def commit(self, next_offsets):
        if self.failures:
            self.failures -= 1
            raise NotCommitted("the broker is gone")
        super().commit(next_offsets)
        self.served = []

    def rewind(self, _stop):
        self.messages, self.served = self.served + self.messages, []


def test_a_batch_whose_offsets_could_not_be_committed_comes_again_from_the_stored_ones():
    clock, function = Clock(), Function()
    source = ForgetfulSource(messages(25), clock, failures=2)
    one = poller(source, function, clock, batch_size=10)
    for _ in range(5):
        one.one_batch()
    batches = [function.offsets(number) for number in range(len(function.payloads))]
    first = list(range(10))
    assert batches == [first, first, first, list(range(10, 20)), list(range(20, 25))]
    assert source.commits == [{0: 10}, {0: 20}, {0: 25}]
    assert (one.progress.rewinds, one.progress.failures, one.progress.records) == (2, 0, 25)


def test_what_is_held_is_dropped_when_it_comes_again():
    """A record that fitted into no payload yet would otherwise stand twice, in the wrong order."""
    clock, function = Clock(), Function()
    source = ForgetfulSource(messages(40, size=600), clock, failures=1)
    one = poller(source, function, clock, max_payload=10_000)
    while len(source.commits) < 2:
        one.one_batch()
    delivered = [function.offsets(number) for number in range(3)]
    assert delivered[0] == delivered[1]
    assert delivered[1] + delivered[2] == list(range(len(delivered[1]) + len(delivered[2])))


def test_one_batch_is_in_flight_at_a_time():
    in_flight, most = 0, 0
    lock = threading.Lock()

    def slow(_payload):
        nonlocal in_flight, most
        with lock:
            in_flight += 1
            most = max(most, in_flight)
        time.sleep(0.01)
        with lock:
            in_flight -= 1

    clock, stop = Clock(), threading.Event()
    one = poller(FakeSource(messages(100), clock), slow, clock, stop, batch_size=10)
    thread = threading.Thread(target=one.run)
    thread.start()
    while one.progress.records < 100:
        time.sleep(0.01)
    stop.set()
    thread.join(5)
    assert most == 1


def test_a_record_larger_than_any_payload_is_not_passed_over_in_silence():
    clock = Clock()
    with pytest.raises(CannotDeliver, match="my-topic/0/0"):
        poller(FakeSource(messages(1, size=10_000), clock), Function(), clock, max_payload=5_000).one_batch()
