"""The run itself, with stand-ins for the functions: real parts, real processes, both readers, each sabotage."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from brokers import BROKERS
from standing_in import lay_out

from icefall_local.demo import DemoOptions, Job
from icefall_local.expectation import Expectation
from icefall_local.launch import Running
from icefall_local.parts import accepts
from icefall_local.querying import how_to_query
from icefall_local.sabotage import KINDS, choose, spoil
from icefall_local.stack import Stack
from icefall_local.supervisor import Options, StartFailed
from icefall_local.terminal import Terminal
from icefall_local.verify import verify
from icefall_local.workspace import Workspace


@pytest.fixture(scope="module", params=BROKERS)
def finished(request, tmp_path_factory):
    """A stack on which the job has been done once, and what it found."""
    stack = Options(kafka=request.param, functions=str(lay_out(tmp_path_factory.mktemp("functions"))))
    options = DemoOptions(records=3_000, bad_permille=20, stall_s=40.0, stack=stack)
    with Running(Workspace.here(), options.stack, print) as running:
        yield running, Job(running.stack, options, Terminal(sys.stderr)).run()


def test_the_job_ends_with_every_record_once_by_both_readers(finished):
    _, result = finished
    assert result.problems == []
    assert result.right
    found = result.as_json()
    assert found["rows"] + found["dead_letters"] == found["produced"] == 3_000
    assert (found["missing"], found["duplicates"], found["altered"]) == (0, 0, 0)
    assert found["readers"] == ["duckdb", "pyiceberg"]
    assert found["access_keys"] == 4
    assert 0 < found["freshness_p50_ms"] <= found["freshness_p99_ms"]
    assert found["snapshots"] > 0 and found["files"] > 0 and found["bytes"] > 0
    assert 0 < found["quiet_tail_ms"] <= 60_000


def test_the_printed_scripts_run(finished):
    running, _ = finished
    how_to_query(running.stack)
    for name in ("query_duckdb.py", "query_pyiceberg.py"):
        done = subprocess.run([sys.executable, running.run / name], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "event_type" in done.stdout


def test_each_sabotage_is_found_and_named_by_both_readers(finished):
    running, _ = finished
    expectation = Expectation.load(running.run / "expected.arrow")
    said = {"drop": "missing", "double": "duplicates", "alter": "altered", "lose-dead-letter": "missing"}
    for number, kind in enumerate(KINDS):
        # Each has a victim of its own, so that all of them can spoil the same tables.
        rest = Expectation(expectation.topic, expectation.records.slice(number * 500))
        victim = choose(rest, kind)
        spoil(running.stack, victim, kind)
        for reader in ("duckdb", "pyiceberg"):
            reading = verify(running.stack, expectation, reader)
            named = [*reading.row_differences.named, *reading.dead_letter_differences.named]
            assert not reading.right
            assert any(line.startswith(f"{said[kind]}: {victim}") for line in named), (reader, kind, named)


@pytest.mark.parametrize("kafka", BROKERS)
def test_a_stack_whose_command_is_killed_stops_by_itself(kafka, tmp_path):
    """The lease: not even `kill -9` of the command leaves a server behind."""
    script = (
        "import sys, time\n"
        "from icefall_local.launch import Running\n"
        "from icefall_local.supervisor import Options\n"
        "from icefall_local.workspace import Workspace\n"
        "options = Options(kafka=sys.argv[2], main_job=False, functions=sys.argv[1])\n"
        "running = Running(Workspace.here(), options, lambda line: None)\n"
        "print(running.run, flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", script, str(lay_out(tmp_path)), kafka]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    run = Path(process.stdout.readline().strip())
    stack = Stack.read(run / "stack.json")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    endpoints = [stack.store.direct_endpoint, stack.catalog.endpoint, stack.queue.direct_endpoint, stack.lambda_endpoint]
    addresses = [urlsplit(one).netloc for one in endpoints] + [stack.kafka_bootstrap]
    deadline = time.monotonic() + 30
    while ((run / "supervisor.pid").exists() or any(map(listens, addresses))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [address for address in addresses if listens(address)]
    assert not (run / "supervisor.pid").exists()


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return accepts(host, int(port))


def test_a_broker_that_is_not_there_is_one_clear_error(tmp_path):
    options = Options(kafka="127.0.0.1:1", functions=str(lay_out(tmp_path)))
    with pytest.raises(StartFailed, match="nothing accepts connections at --kafka 127.0.0.1:1"):
        Running(Workspace.here(), options, print)
