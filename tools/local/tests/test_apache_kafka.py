"""On Apache Kafka: transactions at both isolation levels, offsets with gaps, and a broker that goes away and comes back.

These need Java, so they are collected only when all tests are asked for. Where deliveries repeat it is the
functions themselves that run: the stand-ins would write twice.
"""

import json
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from messages import FakeMessage
from standing_in import lay_out

from icefall_local import isolation_probe
from icefall_local.apache_kafka import properties
from icefall_local.clickstream import TABLE, Clickstream
from icefall_local.demo import DemoOptions, Job
from icefall_local.generator import Plan, create_topic, end_offsets
from icefall_local.kafka_event import Origin, PayloadBuilder, RecordEncoder
from icefall_local.launch import Running
from icefall_local.mapping_process import invoker
from icefall_local.readers import read_with_pyiceberg
from icefall_local.supervisor import Options
from icefall_local.terminal import Terminal
from icefall_local.transactions import TransactionalGenerator, is_committed
from icefall_local.verify import verify
from icefall_local.watch import Watcher
from icefall_local.workspace import Workspace

LEVELS = ("read_committed", "read_uncommitted")


def job(options):
    """The main job, with the result that both readers find."""
    with Running(Workspace.here(), options.stack, print) as running:
        return Job(running.stack, options, Terminal(sys.stderr)).run().as_json()


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker without the main job on it; its bootstrap server."""
    functions = lay_out(tmp_path_factory.mktemp("functions"))
    with Running(Workspace.here(), Options(kafka="apache", main_job=False, functions=str(functions)), print) as running:
        yield running.stack.kafka_bootstrap


def consumed(bootstrap, topic, level, count):
    """The first `count` messages that a consumer of this level sees."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"seen-{level}-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": level, "enable.auto.commit": False})
    consumer.subscribe([topic])
    found, deadline = [], time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count - len(found), timeout=0.5)
    consumer.close()
    return found


def test_whether_a_transaction_was_committed_is_read_from_the_topic(broker):
    create_topic(broker, "outcomes", 1)
    producer = Producer({"bootstrap.servers": broker, "transactional.id": "outcomes"})
    producer.init_transactions(30)
    outcomes = [producer.commit_transaction, producer.abort_transaction, producer.commit_transaction, producer.abort_transaction]
    for end in outcomes:
        producer.begin_transaction()
        producer.produce("outcomes", b"one")
        producer.produce("outcomes", b"two")
        producer.flush(30)
        end(30)
    # A marker stands behind each transaction.
    places = [TopicPartition("outcomes", 0, 3 * number + record) for number in range(4) for record in (0, 1)]
    assert [is_committed(broker, place) for place in places] == [True, True, False, False] * 2


@pytest.mark.parametrize("level", LEVELS)
def test_the_job_ends_right_whether_aborted_records_are_delivered_or_not(level, tmp_path):
    stack = Options(kafka="apache", isolation=level, functions=str(lay_out(tmp_path)))
    found = job(DemoOptions(records=3_000, bad_permille=20, stall_s=40.0, transactions=True, stack=stack))
    assert found["ok"], found
    assert found["aborted_records"] == 975, "13 transactions of 75"
    assert found["produced"] == 3_000 + (975 if level == "read_uncommitted" else 0)
    assert found["rows"] + found["dead_letters"] == found["produced"]


def test_aborted_records_that_reach_the_table_are_found_out(tmp_path):
    """Were the mapping to read uncommitted against its settings, the verification would say so."""
    stack = Options(kafka="apache", isolation="read_uncommitted", functions=str(lay_out(tmp_path)))
    with Running(Workspace.here(), stack, print) as running:
        generator = TransactionalGenerator(Plan(running.stack.kafka_bootstrap, running.stack.topic, 4, 1_000, 0, 1))
        expectation = generator.run(threading.Event())
        assert (expectation.records.num_rows, generator.aborted) == (1_000, 325)
        until_rows(Watcher(running.stack), 1_325)
        found = verify(running.stack, expectation, "duckdb").row_differences
        assert (found.missing, found.duplicates, found.altered, found.unexpected) == (0, 325, 0, 0)


@pytest.mark.parametrize("signal_name", ["SIGTERM", "SIGKILL"])
def test_nothing_is_lost_or_doubled_when_the_broker_is_restarted_while_records_flow(signal_name):
    stack, transactions = Options(kafka="apache"), signal_name == "SIGKILL"
    found = job(DemoOptions(30_000, rate=1_000.0, transactions=transactions, restart_broker=signal_name, stack=stack))
    assert found["ok"], found
    assert (found["missing"], found["duplicates"]) == (0, 0)
    assert found["produced"] == 30_000
    assert found["broker_down_s"] > 0
    assert 0 <= found["broker_recovery_s"] < 30
    print(f"{signal_name}: down {found['broker_down_s']} s, batches again after {found['broker_recovery_s']} s")


def test_t33_offsets_with_gaps_are_no_loss_and_the_ledger_holds_exactly_what_came():
    """T33: offsets 10, 11, 15 and 40, with aborted records and markers between them.

    What the ledger holds shows in what it lets in: of offsets 0 to 40, delivered afterwards, exactly the others.
    """
    records = Clickstream(33, 0, 1).take(41)
    with Running(Workspace.here(), Options(kafka="apache", partitions=1), print) as running:
        stack, watcher = running.stack, Watcher(running.stack)
        transact(stack, records, [(range(0, 9), "abort"), ([10, 11], "commit"), ([13], "abort"), ([15], "commit"),
                                  (range(17, 39), "abort"), ([40], "commit")])  # fmt: skip
        assert end_offsets(stack.kafka_bootstrap, stack.topic, 1) == [42]
        came = consumed(stack.kafka_bootstrap, stack.topic, "read_committed", 4)
        assert [message.offset() for message in came] == [10, 11, 15, 40]
        until_rows(watcher, 4)
        assert ids(stack) == sorted(records[offset].values.event_id for offset in (10, 11, 15, 40))

        theirs = {message.offset(): message for message in came}
        messages = [theirs.get(n) or FakeMessage(0, n, records[n].value, of_topic=stack.topic) for n in range(41)]
        assert invoker(stack.lambda_endpoint, "writer")(event(stack, messages)) is None
        until_rows(watcher, 41)
        assert ids(stack) == sorted(record.values.event_id for record in records)
        alarms = [line for name in ("writer", "committer") for line in alarming(stack.logs / f"{name}.log")]
        assert alarms == []


def transact(stack, records, transactions):
    """Each record gets the offset that is its number: a marker stands behind each transaction."""
    producer = Producer({"bootstrap.servers": stack.kafka_bootstrap, "transactional.id": "t33"})
    producer.init_transactions(30)
    for numbers, outcome in transactions:
        producer.begin_transaction()
        for number in numbers:
            producer.produce(stack.topic, records[number].value, partition=0)
        assert producer.flush(30) == 0
        producer.commit_transaction(30) if outcome == "commit" else producer.abort_transaction(30)


def event(stack, messages):
    encoder, builder = RecordEncoder(stack.topic), PayloadBuilder(Origin(stack.kafka_bootstrap), stack.topic, 10_000)
    for message in messages:
        assert builder.add(message.partition(), message.offset(), encoder.encode(message))
    return builder.payload()


def until_rows(watcher, count):
    """The rows come, and no more than these: the queue is empty then, for longer than a round takes."""
    deadline, calm = time.monotonic() + 60, 0
    while calm < 6:
        view = watcher.look()
        calm = calm + 1 if view.rows == count and view.queue_empty else 0
        assert time.monotonic() < deadline, f"{view.rows} rows, queue {view.queued}+{view.in_flight}"
        time.sleep(0.5)


def ids(stack):
    return sorted(read_with_pyiceberg(stack, TABLE, ("event_id",))["event_id"].to_pylist())


def alarming(log):
    return [line for line in log.read_text().splitlines() if '"level":"WARN"' in line or '"level":"ERROR"' in line]


def test_the_probe_tells_the_levels_apart(broker):
    assert create_topic(broker, "probed", 1)
    offsets = isolation_probe.produce({"bootstrap.servers": broker}, "probed", 0, "a-probe")
    assert offsets == [0, 2, 4], "a marker follows each"
    seen = {level: [json.loads(one.value()) for one in consumed(broker, "probed", level, count)]
            for level, count in zip(LEVELS, (2, 3), strict=True)}  # fmt: skip
    assert [one["outcome"] for one in seen["read_committed"]] == ["committed", "committed"]
    assert [one["outcome"] for one in seen["read_uncommitted"]] == ["committed", "aborted", "committed"]
    assert isolation_probe.settings("# ours\nsasl.password = a=b\n\n") == {"sasl.password": "a=b"}
    text = isolation_probe.explained("probed", 0, "a-probe", offsets)
    assert "0 and 4 have arrived, 2 has not: the mapping reads committed." in text


def test_an_order_to_restart_a_broker_that_is_none_of_the_runs_is_refused(tmp_path):
    with Running(Workspace.here(), Options(main_job=False, functions=str(lay_out(tmp_path))), print) as running:
        endpoint = f"{running.stack.lambda_endpoint}/local/kafka/restart"
        order = urllib.request.Request(endpoint, b'{"signal": "SIGKILL"}', method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(order)
        assert "start the stack with --kafka apache" in json.load(refused.value)["message"]


def test_the_broker_listens_on_loopback_alone(tmp_path):
    listeners = [line for line in properties(1, 2, tmp_path).splitlines() if "listeners=" in line or "bootstrap" in line]
    assert len(listeners) == 3
    assert all("127.0.0.1" in line and "0.0.0.0" not in line for line in listeners)
