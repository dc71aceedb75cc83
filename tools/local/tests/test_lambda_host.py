"""The Lambda host as boto3 sees it, with real processes behind it."""

import asyncio
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from standing_in import program

from icefall_local.execution_environment import MAX_PAYLOAD, FunctionConfig
from icefall_local.http1 import serve
from icefall_local.lambda_host import LambdaHost


class Hosted:
    """A host on a loop of its own, and a client for it."""

    def __init__(self, folder):
        self.folder = folder
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.host = self.on_loop(self._start())
        self.client = boto3.client(
            "lambda",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name="us-east-1",
            aws_access_key_id="any",
            aws_secret_access_key="any",
            config=Config(retries={"max_attempts": 0}, read_timeout=60),
        )

    async def _start(self):
        host = LambdaHost(self.folder)
        self.server = await serve(host.handle)
        self.port = self.server.port
        return host

    def on_loop(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def create(self, script="tried.py", **changes):
        from standing_in import _HERE

        bootstrap = program(self.folder / "bootstrap", str(_HERE / "stand_in" / script))
        config = FunctionConfig("tried", bootstrap, {"GIVEN": "a setting"}, **changes)

        async def create():
            return self.host.create(config)

        return self.on_loop(create())

    def invoke(self, **event):
        answer = self.client.invoke(FunctionName="tried", Payload=json.dumps(event))
        return answer.get("FunctionError"), json.loads(answer["Payload"].read())

    def close(self):
        self.on_loop(self.host.stop())
        self.on_loop(self.server.close())
        self.loop.call_soon_threadsafe(self.loop.stop)


@pytest.fixture
def hosted(tmp_path):
    one = Hosted(tmp_path)
    yield one
    one.close()


def test_a_warm_environment_is_used_again_with_real_deadlines_and_no_keys(hosted):
    hosted.create(timeout_s=20, memory_mib=256)
    (error, first), (_, second) = hosted.invoke(), hosted.invoke()
    assert error is None
    assert first["pid"] == second["pid"]
    assert 15_000 < second["left_ms"] <= 20_000
    assert first["arn"].endswith(":function:tried")
    assert (first["memory"], first["given"], first["keys"]) == ("256", "a setting", [])


def test_an_error_of_the_function_comes_with_the_header_and_keeps_the_environment(hosted):
    hosted.create()
    _, before = hosted.invoke()
    error, body = hosted.invoke(do="raise")
    assert (error, body) == ("Unhandled", {"errorType": "ValueError", "errorMessage": "as asked"})
    assert hosted.invoke()[1]["pid"] == before["pid"]


def test_a_time_out_kills_the_process(hosted):
    hosted.create(timeout_s=0.5)
    _, before = hosted.invoke()
    error, body = hosted.invoke(do="sleep", seconds=30)
    assert error == "Unhandled"
    assert "Task timed out after 0.50 seconds" in body["errorMessage"]
    assert hosted.invoke()[1]["pid"] != before["pid"]


def test_a_crash_is_an_exit_error_and_the_next_invocation_gets_a_new_environment(hosted):
    hosted.create()
    _, before = hosted.invoke()
    error, body = hosted.invoke(do="exit", code=3)
    assert (error, body["errorType"]) == ("Unhandled", "Runtime.ExitError")
    assert "exit status 3" in body["errorMessage"]
    assert hosted.invoke()[1]["pid"] != before["pid"]


def test_a_program_that_ends_while_it_starts_is_an_error(hosted):
    (hosted.folder / "broken.py").write_text("raise SystemExit(7)")
    hosted.create(script=str(hosted.folder / "broken.py"))
    error, body = hosted.invoke()
    assert (error, body["errorType"]) == ("Unhandled", "Runtime.ExitError")


def test_six_megabytes_in_and_out(hosted):
    hosted.create()
    filler = "x" * (MAX_PAYLOAD - len(json.dumps({"filler": ""})))
    assert hosted.invoke(filler=filler)[0] is None
    with pytest.raises(ClientError) as caught:
        hosted.invoke(filler=filler + "x")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 413
    assert hosted.invoke(do="large", bytes=MAX_PAYLOAD - 2)[0] is None
    error, body = hosted.invoke(do="large", bytes=MAX_PAYLOAD - 1)
    assert (error, body["errorType"]) == ("Unhandled", "Function.ResponseSizeTooLarge")


def test_reserved_concurrency_throttles(hosted):
    function = hosted.create(concurrency=1)
    hosted.invoke()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(hosted.invoke, do="sleep", seconds=1.0)
        time.sleep(0.3)
        with pytest.raises(ClientError) as caught:
            hosted.invoke()
        assert caught.value.response["Error"]["Code"] == "TooManyRequestsException"
        assert running.result()[0] is None
    assert function.counts.throttles == 1


def test_parallel_invocations_get_environments_of_their_own(hosted):
    hosted.create(concurrency=2)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: hosted.invoke(do="sleep", seconds=0.5)[1]["pid"], range(2)))
    assert len(set(answers)) == 2


def test_an_event_that_is_throttled_for_longer_than_its_age_is_dropped(hosted):
    function = hosted.create(concurrency=1, event_age_s=0.3)
    hosted.invoke()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(hosted.invoke, do="sleep", seconds=1.0)
        time.sleep(0.2)
        answer = hosted.client.invoke(FunctionName="tried", InvocationType="Event", Payload=b"{}")
        assert answer["StatusCode"] == 202
        running.result()
    assert (function.counts.expired, function.counts.invocations) == (1, 2)


def test_a_failed_event_is_not_retried(hosted):
    function = hosted.create()
    hosted.client.invoke(FunctionName="tried", InvocationType="Event", Payload=b'{"do": "raise"}')
    deadline = time.monotonic() + 10
    while not function.counts.errors and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    assert (function.counts.invocations, function.counts.errors) == (1, 1)


def test_a_kill_ends_the_invocation_and_is_counted(hosted):
    function = hosted.create()
    hosted.invoke()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(hosted.invoke, do="sleep", seconds=20)
        time.sleep(0.3)
        hosted.loop.call_soon_threadsafe(function.kill_one, random.Random(1))
        error, body = running.result(10)
    assert (error, body["errorType"]) == ("Unhandled", "Runtime.ExitError")
    assert "SIGKILL" in body["errorMessage"]
    assert (function.counts.kills, function.counts.kills_in_flight) == (1, 1)


def test_a_kill_of_an_idle_environment_is_none_in_flight(hosted):
    function = hosted.create()
    hosted.invoke(do="sleep", seconds=0.2)
    assert function.typical_s >= 0.2
    assert not function.working
    hosted.loop.call_soon_threadsafe(function.kill_one, random.Random(1))
    deadline = time.monotonic() + 10
    while not function.counts.kills and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (function.counts.kills, function.counts.kills_in_flight) == (1, 0)
    assert hosted.invoke()[0] is None


def test_one_long_invocation_among_short_ones_is_not_typical(hosted):
    hosted.create()
    hosted.invoke(do="sleep", seconds=3.0)
    for _ in range(4):
        hosted.invoke()
    assert hosted.host.function("tried").typical_s < 0.5


def test_cpu_time_is_kept_when_a_process_ends(hosted):
    function = hosted.create()
    hosted.invoke(do="burn", seconds=0.5)
    while_running = function.usage().cpu_seconds
    hosted.invoke(do="exit", code=0)
    assert while_running >= 0.5
    assert function.usage().cpu_seconds >= while_running
    assert function.usage().peak_rss_mib > 1


def test_an_unknown_function_is_not_found(hosted):
    with pytest.raises(hosted.client.exceptions.ResourceNotFoundException):
        hosted.client.invoke(FunctionName="nobody", Payload=b"{}")
