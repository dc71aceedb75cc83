"""The development loop of the README: `cargo lambda watch`, and `cargo lambda invoke` with the event files.

Watch is no Lambda: it names a deadline of 1970, answers errors as HTTP 500 and has no event sources. The functions
have to work behind it all the same.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from icefall_local.readers import read_with_duckdb, read_with_pyiceberg
from icefall_local.stack import Stack
from icefall_local.workspace import Workspace
from watched import FIXTURES, Watch

ROWS = {("fixture-1", 1), ("fixture-3", 3), ("fixture-4", 4), ("fixture-5", 5)}
DEAD_LETTERS = {(900, 16), (901, 1)}


class Pipeline:
    """A pipeline of this test's own on the stack that is up, by the overrides of single settings."""

    def __init__(self, stack: Stack) -> None:
        self.name = f"dev-{uuid.uuid4().hex[:8]}"
        self.namespace = self.name.replace("-", "_")
        self._stack = stack

    def environment(self) -> dict[str, str]:
        return {
            "ICEFALL_SETTINGS": self._stack.settings,
            "ICEFALL__PIPELINE": self.name,
            "ICEFALL__OPS__PREFIX": self.name,
            "ICEFALL__QUEUE__URL": self._new_queue(),
            "ICEFALL__TABLE__0__NAME": f"{self.namespace}.clicks",
            "ICEFALL__ROUTE__0__TABLE": f"{self.namespace}.clicks",
            "ICEFALL__DEAD_LETTERS__TABLE": f"{self.namespace}.dead_letters",
        }

    def _new_queue(self) -> str:
        queue = self._stack.queue
        client = boto3.client(
            "sqs",
            endpoint_url=queue.direct_endpoint,
            region_name=queue.region,
            aws_access_key_id=queue.access_key_id,
            aws_secret_access_key=queue.secret_access_key,
        )
        url = client.create_queue(QueueName=self.name)["QueueUrl"]
        return str(url).replace(queue.direct_endpoint, queue.endpoint)


@pytest.fixture(scope="module")
def stack() -> Stack:
    return Stack.read(Path(os.environ["ICEFALL_STACK"]))


@pytest.fixture(scope="module")
def pipeline(stack: Stack) -> Pipeline:
    return Pipeline(stack)


@pytest.fixture(scope="module")
def watch(pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    logs = tmp_path_factory.mktemp("watch")
    with Watch(Workspace.here(), pipeline.environment(), logs) as watch:
        yield watch


def test_events_become_rows_and_dead_letters(watch: Watch, pipeline: Pipeline, stack: Stack):
    made = watch.report("committer", "schedule-event.json")
    assert (made["received"], made["failed_tables"]) == (0, 0), "it makes the tables, and finds nothing queued"
    msk = watch.report("writer", "msk-event.json")
    assert (msk["records"], msk["rows"], msk["dead_letters"], msk["batches"]) == (3, 2, 1, 1)
    self_managed = watch.report("writer", "self-managed-event.json")
    assert (self_managed["records"], self_managed["rows"], self_managed["dead_letters"]) == (3, 2, 1)
    settled = watch.report("committer", "schedule-event.json")
    assert (settled["received"], settled["settled"], settled["waiting"], settled["snapshots"]) == (2, 2, 0, 1)
    for read in (read_with_duckdb, read_with_pyiceberg):
        rows = read(stack, f"{pipeline.namespace}.clicks", ("event_id", "user_id")).to_pylist()
        assert sorted((row["event_id"], row["user_id"]) for row in rows) == sorted(ROWS)
        letters = read(stack, f"{pipeline.namespace}.dead_letters", ("partition", "offset")).to_pylist()
        assert sorted((row["partition"], row["offset"]) for row in letters) == sorted(DEAD_LETTERS)


def test_an_event_that_is_invoked_again_lands_once(watch: Watch, pipeline: Pipeline, stack: Stack):
    watch.report("writer", "msk-event.json")
    again = watch.report("committer", "schedule-event.json")
    assert (again["settled"], again["snapshots"]) == (1, 0)
    rows = read_with_pyiceberg(stack, f"{pipeline.namespace}.clicks", ("event_id", "user_id")).to_pylist()
    assert sorted((row["event_id"], row["user_id"]) for row in rows) == sorted(ROWS)


def test_a_function_that_fails_says_so_to_who_invoked_it(pipeline: Pipeline, stack: Stack, tmp_path: Path):
    nowhere = {**pipeline.environment(), "ICEFALL__CATALOG__URI": "http://127.0.0.1:9"}
    with Watch(Workspace.here(), nowhere, tmp_path) as watch:
        done = watch.invoke("committer", "schedule-event.json")
        assert done.returncode != 0
        assert "Icefall.CatalogUnreachable" in done.stdout + done.stderr


def test_the_event_files_are_what_lambda_delivers():
    """Held to the documented shape: https://docs.aws.amazon.com/lambda/latest/dg/with-kafka.html."""
    for name in ("msk-event.json", "self-managed-event.json"):
        event = json.loads((FIXTURES / name).read_text())
        assert (event["eventSource"] == "aws:kafka") == ("eventSourceArn" in event)
        for key, records in event["records"].items():
            offsets = [record["offset"] for record in records]
            assert offsets == sorted(set(offsets))
            assert {f"{record['topic']}-{record['partition']}" for record in records} == {key}
