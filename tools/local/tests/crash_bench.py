"""Plays one crash point on a stack: with a topic, tables, a queue, a corner of the ops bucket and functions of its own.

Records are produced to the broker and delivered by the emulated event source mapping's own poller, which sends a batch
again until the function takes it; the functions are the built ones, behind the proxies where the points strike. So
rows that wait for something don't wait for each other, and nothing of one can help another.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from confluent_kafka import Producer
from crash_points import CrashPoint, Scene
from pyiceberg.table import Table

from icefall_local import scheduler, settings_file
from icefall_local.clickstream import HEADER_VARIANTS, Clickstream, Tables
from icefall_local.event_source_mapping import MappingConfig, Poller
from icefall_local.expectation import Expectation, ExpectationBuilder
from icefall_local.generator import PRODUCER, create_topic, end_offsets
from icefall_local.mapping_process import KafkaSource, invoker
from icefall_local.readers import load_table, open_catalog
from icefall_local.settings_file import Pipeline
from icefall_local.stack import Stack
from icefall_local.verify import Reading, verify
from icefall_local.watch import metric_sums
from icefall_local.workspace import Workspace

_BAD_PERMILLE, _BAD_OF_LARGE = 250, 30
_PATIENCE_S = 90.0
_PAUSE_S = 0.1
_WINDOW_S = 0.3
_LARGE = 1_400
"""Records that are a file each: too many files to be named in one message."""
_ONE_COMPARISON = threading.Lock()
"""Comparing keeps both cores busy as it is, and DuckDB's default connection is for one thread at a time."""
_UNREADABLE = b'{"eventSource": "SelfManagedKafka", "records": {"t-0": [{"offset": "none"}]}}'


@dataclass(frozen=True)
class Seen:
    """What a look at the parts shows."""

    tables: int
    data_files: int
    unnamed_files: int
    """Data files that the table's current snapshot does not name."""
    manifests: int
    manifest_lists: int
    delivered_files: int
    """Of the dead-letter table."""
    snapshots: int
    letter_snapshots: int
    rows: int
    dead_letters: int
    in_outbox: int
    """Entries of the table's outbox that its ledger still holds."""
    segments: int
    letter_files: int
    spills: int
    registered: int
    clusters: int
    begun: int
    """Heartbeats of rounds that nobody has ended."""
    quarantined_messages: int
    quarantine_entries: int
    quarantine_copies: int
    queued: int
    """Messages in the queue, hidden ones among them."""
    hidden: int


@dataclass(frozen=True)
class Played:
    """What came of a row."""

    struck: str
    """The request that the process was struck at."""
    ended: str
    """What the function's host said of the invocation that was struck."""
    left: Seen
    settled: Seen
    reading: Reading
    complaints: list[str]
    """Function errors after the strike: nothing that is left behind may make any."""
    quarantined_offsets: list[int]
    asked_to_quarantine: list[int]
    conflicts: int
    """Commits that were refused because the table had changed, as the committer counted them."""


class Bench:
    """The surroundings of one row."""

    def __init__(self, stack: Stack, point: CrashPoint) -> None:
        name = f"crash-{point.id.lower()}"
        session = boto3.session.Session()
        self.point = point
        self.complaints: list[str] = []
        self.left: Seen | None = None
        self.ended = ""
        self.quarantine_expected: list[int] = []
        self._name = name
        self._queue = _client(session, "sqs", stack.queue.direct_endpoint, stack.queue.region, stack.queue)
        self._objects = _client(session, "s3", stack.store.direct_endpoint, stack.store.region, stack.reader)
        direct = str(self._queue.create_queue(QueueName=name, Attributes={"MaximumMessageSize": "1048576"})["QueueUrl"])
        self.stack = dataclasses.replace(stack, topic=name, direct_queue_url=direct)
        self.tables = Tables(f"{name.replace('-', '_')}.events", f"{name.replace('-', '_')}.dead_letters")
        self._catalog = open_catalog(self.stack)
        bad_permille = _BAD_OF_LARGE if self._is_large else _BAD_PERMILLE
        self._stream = Clickstream(int.from_bytes(point.id.encode(), "big"), bad_permille, 1)
        self._built = ExpectationBuilder(name, 1)
        self._producer = Producer({**PRODUCER, "bootstrap.servers": stack.kafka_bootstrap})
        self._generation = 0
        self._stop = threading.Event()
        self._create_functions()
        assert create_topic(stack.kafka_bootstrap, name, 1)

    # What a scene is made of.

    def produce(self, count: int) -> None:
        """Records for the topic's only partition, the bad ones among them."""
        records = self._stream.take(count)
        now = time.time_ns() // 1_000_000
        for record in records:
            headers = HEADER_VARIANTS[record.headers_variant]
            self._producer.produce(self.stack.topic, record.value, record.key, partition=0, headers=headers, timestamp=now)
        assert self._producer.flush(30) == 0
        self._built.add(records, [now] * count)
        assert end_offsets(self.stack.kafka_bootstrap, self.stack.topic, 1) == self._built.next_offsets

    def deliver(self, from_the_beginning: bool = False) -> None:
        """One batch of all that is new, again and again until the writer has it; then its offsets are committed."""
        self._generation += from_the_beginning
        source = KafkaSource(self._mapping(), [0], self._stop)
        given_up = threading.Timer(_PATIENCE_S, self._stop.set)
        given_up.start()
        try:
            poller = Poller(self._mapping(), source, self._write, self._stop)
            assert poller.one_batch(), f"the batch was not taken: {poller.progress.last_error}"
        finally:
            given_up.cancel()
            source.close()

    def write_unreadable(self) -> None:
        """An event that nobody can read, as often as the mapping would send it."""
        while (error := self._write(_UNREADABLE)) is not None:
            assert "SIGKILL" in error, error

    def commit(self) -> str | None:
        """One run of the committer; why it failed, if it did."""
        return invoker(self.stack.lambda_endpoint, self._function("committer"))(scheduler.scheduled_event("us-west-2"))

    def commit_and_die(self) -> None:
        """One run of the committer that is struck."""
        error = self.commit()
        assert error is not None, "the committer ran to its end"
        self.ended, self.left = error, self.look()

    def make_tables(self) -> None:
        assert (error := self.commit()) is None, error

    def settle(self) -> Seen:
        """Runs of the committer until all that was produced is settled, and nothing is queued."""
        expected = self.expectation()
        rows, letters = expected.rows().num_rows, expected.dead_letters().num_rows
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            seen = self.look()
            if (seen.rows, seen.dead_letters, seen.queued) == (rows, letters, 0):
                return seen
            assert time.monotonic() < deadline, f"not settled: {seen}; {rows} rows and {letters} dead letters are expected"
            if (error := self.commit()) is not None:
                self.complaints.append(error)
            time.sleep(_PAUSE_S)

    def rename_cluster(self) -> None:
        """The settings name the cluster otherwise: the committer can't know that it is the same."""
        self.stack = dataclasses.replace(self.stack, kafka_cluster="renamed")
        self._create_functions()

    def arm(self) -> None:
        point = self.point
        body = {
            "function": self._function(point.function), "call": point.call, "moment": point.moment,
            "act": point.act, "about": point.about, "nth": point.nth,
        }  # fmt: skip
        self._point("PUT", body=body)

    def struck(self) -> str:
        """The request at which the point struck; empty until it has."""
        return str(self._point("GET")["struck"])

    def thaw(self) -> None:
        self._point("POST", "/thaw")

    def expectation(self) -> Expectation:
        return self._built.build()

    def next_offset(self) -> int:
        return self._built.next_offsets[0]

    def forget_after(self, offset: int) -> None:
        """What comes from here on goes to quarantine: it is not to be found in the tables."""
        settled = self.expectation()
        self.quarantine_expected = list(range(offset, self.next_offset()))
        self.expectation = lambda: Expectation(settled.topic, settled.records.slice(0, offset))  # type: ignore[method-assign]

    # What can be looked at.

    def look(self) -> Seen:
        table, letters = load_table(self._catalog, self.tables.rows), load_table(self._catalog, self.tables.dead_letters)
        files, ours = self._files(table), self._ours()
        data = {f"s3://{self.stack.table_bucket}/{key}" for key in files if key.endswith(".parquet")}
        named = set(table.inspect.data_files()["file_path"].to_pylist()) if table is not None and table.current_snapshot() else set()
        visible, hidden = self._depth()
        return Seen(
            tables=sum(one is not None for one in (table, letters)),
            data_files=len(data),
            unnamed_files=len(data - named),
            manifests=_count(files, lambda key: key.endswith(".avro") and "/snap-" not in key),
            manifest_lists=_count(files, lambda key: "/metadata/snap-" in key),
            delivered_files=_count(self._files(letters), lambda key: key.endswith(".parquet")),
            snapshots=len(table.metadata.snapshots) if table is not None else 0,
            letter_snapshots=len(letters.metadata.snapshots) if letters is not None else 0,
            rows=_total(table),
            dead_letters=_total(letters),
            in_outbox=_in_outbox(table),
            segments=_count(ours, lambda key: key.startswith("segments/")),
            letter_files=_count(ours, lambda key: key.startswith("dead-letters/")),
            spills=_count(ours, lambda key: key.startswith("spill/")),
            registered=_count(ours, lambda key: key.startswith("register/")),
            clusters=_count(ours, lambda key: key.startswith("clusters/")),
            begun=sum(not json.loads(self._read(key))["ended"] for key in ours if key.startswith("heartbeat/")),
            quarantined_messages=_count(ours, lambda key: key.startswith("quarantine/") and key.endswith(".raw")),
            quarantine_entries=_count(ours, lambda key: key.startswith("quarantine/") and key.endswith(".json")),
            quarantine_copies=_count(ours, lambda key: key.startswith("quarantine/") and key.endswith(".parquet")),
            queued=visible + hidden,
            hidden=hidden,
        )

    def quarantined_offsets(self) -> list[int]:
        """The offsets that entries in quarantine name, each with its message and true copies of its data files."""
        offsets: list[int] = []
        for key in self._ours():
            if key.startswith("quarantine/") and key.endswith(".json"):
                entry = json.loads(self._read(key))
                assert self._read(entry["raw"]), entry
                details = entry["details"]
                for copy in details.get("data-files", []):
                    bucket, _, original = copy["file"].removeprefix("s3://").partition("/")
                    assert self._read(copy["copy"]) == self._object(bucket, original), copy
                offsets += _offsets(details.get("offsets", []))
        return sorted(offsets)

    def conflicts(self) -> int:
        """What the committer counted; one that was killed took its own along."""
        return metric_sums(self.stack.logs / f"{self._function('committer')}.log", ("CommitConflicts",))["CommitConflicts"]

    def unreadable_events(self) -> list[bytes]:
        """The messages of whole entries in quarantine."""
        entries = [key for key in self._ours() if key.startswith("quarantine/") and key.endswith(".json")]
        return [self._read(json.loads(self._read(key))["raw"]) for key in entries]

    def _write(self, payload: bytes) -> str | None:
        error = invoker(self.stack.lambda_endpoint, self._function("writer"))(payload)
        if error is not None and self.left is None and self.point.function == "writer":
            self.ended, self.left = error, self.look()
        elif error is not None:
            self.complaints.append(error)
        return error

    def _mapping(self) -> MappingConfig:
        return MappingConfig(
            topic=self.stack.topic,
            function=self._function("writer"),
            bootstrap_servers=self.stack.kafka_bootstrap,
            consumer_group=f"{self._name}-{self._generation}",
            window_s=_WINDOW_S,
        )

    def _function(self, name: str) -> str:
        return f"{self.point.id}-{name}"

    @property
    def _is_large(self) -> bool:
        return self.point.scene in (Scene.LARGE_WRITER, Scene.LARGE_COMMITTER)

    def _create_functions(self) -> None:
        gathers, hold = ("3s", "6s") if self.point.scene is Scene.GATHERING else ("0s", "2s")
        merging = {"commit.manifest.min-count-to-merge": "3"} if self.point.scene is Scene.MERGE else {}
        pipeline = Pipeline(
            self._name,
            commit_interval=gathers,
            linger=gathers,
            hold=hold,
            tables=self.tables,
            partition_by=("event_id",) if self._is_large else (),
            table_properties=merging,
            ops_prefix=self._name,
        )
        for name in ("writer", "committer"):
            function = self._function(name)
            settings = self.stack.folder / f"{function}-{self.stack.kafka_cluster}.toml"
            settings.write_text(settings_file.render(self._through_proxies_of(function), pipeline))
            settings.chmod(0o600)
            bootstrap, environment = str(Workspace.here().function(name)), {"ICEFALL_SETTINGS": str(settings)}
            wanted = {"bootstrap": bootstrap, "environment": environment, "concurrency": 2}
            self._order("PUT", f"functions/{function}", wanted)

    def _through_proxies_of(self, function: str) -> Stack:
        """The stack as the function is told of it."""
        parts = self._order("POST", f"functions/{function}/proxies")
        services = {part: dataclasses.replace(getattr(self.stack, part), endpoint=endpoint) for part, endpoint in parts.items()}
        url = self.stack.direct_queue_url.replace(self.stack.queue.direct_endpoint, parts["queue"])
        return dataclasses.replace(self.stack, queue_url=url, **services)

    def _point(self, method: str, below: str = "", body: Any = None) -> Any:
        return self._order(method, f"fail-points/{self.point.id}{below}", body)

    def _order(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        order = urllib.request.Request(f"{self.stack.lambda_endpoint}/local/{path}", data, method=method)
        with urllib.request.urlopen(order, timeout=60) as answer:
            return json.load(answer)

    def _files(self, table: Table | None) -> list[str]:
        if table is None:
            return []
        return self._keys(self.stack.table_bucket, table.location().removeprefix(f"s3://{self.stack.table_bucket}/") + "/")

    def _ours(self) -> list[str]:
        """The keys of the ops bucket's corner, without its name."""
        return [key.removeprefix(f"{self._name}/") for key in self._keys(self.stack.ops_bucket, f"{self._name}/")]

    def _keys(self, bucket: str, prefix: str) -> list[str]:
        pages = self._objects.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def _read(self, key: str) -> bytes:
        return self._object(self.stack.ops_bucket, f"{self._name}/{key}")

    def _object(self, bucket: str, key: str) -> bytes:
        return self._objects.get_object(Bucket=bucket, Key=key)["Body"].read()

    def _depth(self) -> tuple[int, int]:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self._queue.get_queue_attributes(QueueUrl=self.stack.direct_queue_url, AttributeNames=names)["Attributes"]
        return int(found[names[0]]), int(found[names[1]])


def play(stack: Stack, point: CrashPoint) -> Played:
    """Everything of one row, from an empty topic to the last comparison."""
    bench = Bench(stack, point)
    _SCENES[point.scene](bench)
    settled = bench.settle()
    struck = bench.struck()
    assert bench.left is not None, f"nothing struck {point}"
    with _ONE_COMPARISON:
        reading = verify(bench.stack, bench.expectation(), "pyiceberg", bench.tables)
    return Played(
        struck, bench.ended, bench.left, settled, reading, bench.complaints,
        bench.quarantined_offsets(), bench.quarantine_expected, bench.conflicts(),
    )  # fmt: skip


def _written(bench: Bench, records: int = 40) -> None:
    bench.make_tables()
    bench.produce(records)
    bench.arm()
    bench.deliver()


def _unreadable(bench: Bench) -> None:
    bench.make_tables()
    bench.arm()
    bench.write_unreadable()
    assert bench.unreadable_events().count(_UNREADABLE) >= 1
    bench.produce(40)
    bench.deliver()


def _first_run(bench: Bench) -> None:
    bench.arm()
    bench.commit_and_die()
    bench.make_tables()
    bench.produce(40)
    bench.deliver()


def _committed(bench: Bench, records: int = 40) -> None:
    bench.make_tables()
    bench.produce(records)
    bench.deliver()
    bench.arm()
    bench.commit_and_die()


def _committed_after(bench: Bench, rounds: int) -> None:
    bench.make_tables()
    for _ in range(rounds):
        bench.produce(40)
        bench.deliver()
        bench.settle()
    bench.produce(20)
    bench.deliver()
    bench.arm()
    bench.commit_and_die()


def _trimmed(bench: Bench) -> None:
    bench.make_tables()
    bench.produce(40)
    bench.deliver()
    bench.settle()
    bench.produce(20)
    bench.deliver(from_the_beginning=True)
    bench.arm()
    bench.commit_and_die()


def _renamed(bench: Bench) -> None:
    bench.make_tables()
    bench.produce(40)
    bench.deliver()
    bench.settle()
    bench.rename_cluster()
    settled = bench.next_offset()
    bench.produce(20)
    bench.deliver()
    bench.forget_after(settled)
    bench.arm()
    bench.commit_and_die()


def _frozen(bench: Bench) -> None:
    """The frozen one is thawed only when another has settled everything, as far as it could."""
    bench.make_tables()
    bench.produce(40)
    bench.deliver()
    bench.arm()
    answers: list[str | None] = []
    frozen = threading.Thread(target=lambda: answers.append(bench.commit()))
    frozen.start()
    deadline = time.monotonic() + _PATIENCE_S
    while not bench.struck():
        assert frozen.is_alive() and time.monotonic() < deadline, "the committer ran to its end"
        time.sleep(_PAUSE_S)
    bench.left = bench.look()
    try:
        bench.settle()
    finally:
        bench.thaw()
    frozen.join(_PATIENCE_S)
    bench.ended = "it went on, and ended well" if answers == [None] else f"it went on, and ended so: {answers}"


_SCENES = {
    Scene.WRITER: _written,
    Scene.LARGE_WRITER: lambda bench: _written(bench, _LARGE),
    Scene.UNREADABLE: _unreadable,
    Scene.FIRST_RUN: _first_run,
    Scene.COMMITTER: _committed,
    Scene.GATHERING: _committed,
    Scene.LARGE_COMMITTER: lambda bench: _committed(bench, _LARGE),
    Scene.SECOND: lambda bench: _committed_after(bench, 1),
    Scene.MERGE: lambda bench: _committed_after(bench, 3),
    Scene.TRIM: _trimmed,
    Scene.RENAMED: _renamed,
    Scene.FROZEN: _frozen,
}


def _client(session: Any, service: str, endpoint: str, region: str, key: Any) -> Any:
    return session.client(
        service,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=key.access_key_id,
        aws_secret_access_key=key.secret_access_key,
        config=Config(s3={"addressing_style": "path"}),
    )


def _count(keys: list[str], which: Any) -> int:
    return sum(map(which, keys))


def _total(table: Table | None) -> int:
    if table is None or (snapshot := table.current_snapshot()) is None:
        return 0
    return int((snapshot.summary["total-records"] if snapshot.summary else None) or 0)


def _in_outbox(table: Table | None) -> int:
    properties = table.properties if table is not None else {}
    ledgers = [json.loads(value) for name, value in properties.items() if name.startswith("icefall.ledger.")]
    return sum(len(ledger["outbox"]) for ledger in ledgers)


def _offsets(runs: list[dict[str, Any]]) -> list[int]:
    return [offset for run in runs for offset in range(run["first"], run["first"] + run["count"])]
