"""What is expected of transactions, whatever the broker answers: only what it reported, and of what it committed."""

import threading
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, KafkaException

from icefall_local import transactions
from icefall_local.generator import Plan, ProduceFailed
from icefall_local.transactions import TransactionalGenerator, transaction_size


def retriable():
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "not yet", retriable=True))


def abortable():
    return KafkaException(KafkaError(KafkaError.UNKNOWN_PRODUCER_ID, "abort it", txn_requires_abort=True))


@dataclass
class Landed:
    """The commit was made; the client hears of a failure."""

    told: KafkaException


class Delivered:
    def __init__(self, offset):
        self.at = offset

    def offset(self):
        return self.at


class FakeProducer:
    """A broker of one partition, with a marker behind each transaction; its answers to commits can be told."""

    def __init__(self, answers=(), lost=()):
        self.log, self.offset, self.open = [], 0, []
        self.answers, self.lost = list(answers), set(lost)

    def init_transactions(self, _timeout):
        pass

    def begin_transaction(self):
        assert self.open == []

    def produce(self, _topic, *, value, on_delivery, **_):
        self.open.append((value, on_delivery))

    def flush(self, _timeout):
        self.flushed = []
        for value, on_delivery in self.open:
            if self.offset in self.lost:
                self.lost.remove(self.offset)
                on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT), None)
                continue
            self.flushed.append((self.offset, value))
            on_delivery(None, Delivered(self.offset))
            self.offset += 1
        return 0

    def commit_transaction(self, _timeout):
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Landed):
            self.end("committed")
            raise answer.told
        if answer is not None:
            raise answer
        self.end("committed")

    def abort_transaction(self, _timeout):
        if self.open:
            self.end("aborted")

    def end(self, outcome):
        self.log.append((outcome, self.flushed))
        self.open, self.offset = [], self.offset + 1

    def of(self, outcome):
        return [offset for how, records in self.log if how == outcome for offset, _ in records]


def generated(monkeypatch, producer, records=8, **changes):
    monkeypatch.setattr(transactions, "Producer", lambda _settings: producer)
    monkeypatch.setattr(transactions, "end_offsets", lambda *_: [producer.offset])
    monkeypatch.setattr(transactions, "is_committed", lambda _, record: record.offset in producer.of("committed"))
    generator = TransactionalGenerator(Plan("b", "t", 1, records, 0, 1, **changes))
    return generator, generator.run(threading.Event())


def test_of_four_transactions_the_fourth_is_aborted_and_its_records_are_produced_again(monkeypatch):
    producer = FakeProducer()
    generator, expectation = generated(monkeypatch, producer)
    four = ["committed"] * 3 + ["aborted"]
    assert [outcome for outcome, _ in producer.log] == [*four, *four, "committed", "committed"]
    assert expectation.records["offset"].to_pylist() == producer.of("committed")
    assert (expectation.records.num_rows, generator.produced, generator.aborted) == (8, 8, 2)
    values = [[value for _, value in records] for _, records in producer.log]
    assert values[3] == values[4]
    assert len({value for records in values for value in records}) == 8


def test_who_reads_uncommitted_expects_the_aborted_ones_too(monkeypatch):
    producer = FakeProducer()
    generator, expectation = generated(monkeypatch, producer, expects_aborted=True)
    assert expectation.records["offset"].to_pylist() == sorted(producer.of("committed") + producer.of("aborted"))
    assert generator.produced == expectation.records.num_rows == 10
    assert len(set(expectation.records["event_id"].to_pylist())) == 8


def test_a_commit_whose_outcome_is_open_is_asked_for_again(monkeypatch):
    producer = FakeProducer([retriable(), retriable()])
    _, expectation = generated(monkeypatch, producer)
    assert expectation.records["offset"].to_pylist() == producer.of("committed")


def test_a_transaction_that_must_be_aborted_is_done_again_and_expected_once(monkeypatch):
    producer = FakeProducer([None, abortable()])
    generator, expectation = generated(monkeypatch, producer)
    assert [outcome for outcome, _ in producer.log[:3]] == ["committed", "aborted", "committed"]
    assert expectation.records["offset"].to_pylist() == producer.of("committed")
    assert (expectation.records.num_rows, generator.aborted) == (8, len(producer.of("aborted")))


def test_a_commit_that_was_made_though_the_client_heard_otherwise_is_not_done_again(monkeypatch):
    producer = FakeProducer([None, Landed(abortable())])
    generator, expectation = generated(monkeypatch, producer)
    assert expectation.records["offset"].to_pylist() == producer.of("committed")
    assert (expectation.records.num_rows, generator.aborted) == (8, len(producer.of("aborted")))


def test_nothing_is_expected_when_it_is_unknown_what_the_broker_has(monkeypatch):
    with pytest.raises(ProduceFailed, match="a committed transaction lacks records"):
        generated(monkeypatch, FakeProducer(lost=[2]))
    with pytest.raises(ProduceFailed, match="unknown"):
        generated(monkeypatch, FakeProducer([None, abortable()], lost=[2]), expects_aborted=True)


def test_even_a_small_plan_has_transactions_that_are_aborted():
    def size(records, rate=None):
        return transaction_size(Plan("b", "t", 4, records, 0, 1, rate))

    assert (size(200_000), size(3_000), size(10)) == (2_000, 75, 1)
    assert size(200_000, rate=100.0) == 10
