"""The queue mapping's rules: what closes a batch, how an event looks, what an answer lets go, and what comes again."""

import asyncio
import base64
import json
from functools import partial

import boto3
import pytest
from botocore.config import Config

from icefall_local import parts
from icefall_local.execution_environment import MAX_PAYLOAD, Outcome
from icefall_local.lambda_host import Throttled
from icefall_local.ports import Ports
from icefall_local.queue_mapping import (
    QueueFailed,
    QueueMappingConfig,
    QueuePoller,
    QueueProgress,
    SqsQueue,
    kept_by,
    record,
    run,
)
from icefall_local.workspace import Workspace

ARN = "arn:aws:sqs:us-east-2:123456789012:my-queue"
SUCCESS = Outcome(b'{"batchItemFailures": []}')


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds


class FakeQueue:
    """Gives the messages of one arrival after another, as a long poll does; time passes while it waits for them."""

    def __init__(self, clock, *arrivals):
        self.clock = clock
        self.arrivals = sorted(arrivals, key=lambda arrival: arrival[0])
        self.asked, self.deleted, self.refusals = [], [], 0

    async def receive(self, at_most, wait_s):
        self.asked.append((at_most, wait_s))
        if self.refusals:
            self.refusals -= 1
            raise QueueFailed("the queue is gone")
        due = [arrival for arrival in self.arrivals if arrival[0] <= self.clock.now + wait_s][:at_most]
        self.clock.now = max(self.clock.now, due[0][0]) if due else self.clock.now + wait_s
        given = [arrival for arrival in due if arrival[0] <= self.clock.now]
        self.arrivals = [arrival for arrival in self.arrivals if arrival not in given]
        return [message for _, message in given]

    async def delete(self, messages):
        assert len(messages) <= 10
        self.deleted += [message["MessageId"] for message in messages]


class Function:
    """A function that answers with what it was told to, then with success; remembers every event."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.payloads = []

    async def __call__(self, payload):
        self.payloads.append(payload)
        outcome = self.outcomes.pop(0) if self.outcomes else SUCCESS
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def ids(self, number=-1):
        return [one["messageId"] for one in json.loads(self.payloads[number])["Records"]]


def message(number, body="body"):
    return {"MessageId": f"m{number}", "ReceiptHandle": f"r{number}", "Body": body, "MD5OfBody": "-"}


def arrivals(count, at=0.0, body="body"):
    return [(at, message(number, body)) for number in range(count)]


class Bench:
    def __init__(self, *arrived, outcomes=(), **config):
        self.clock = Clock()
        self.queue = FakeQueue(self.clock, *arrived)
        self.function = Function(*outcomes)
        self.progress = QueueProgress()
        config = QueueMappingConfig(ARN, **config)
        self.poller = QueuePoller(config, self.queue, self.function, self.progress, self.clock, self.clock.sleep)

    def batches(self, count=1):
        for _ in range(count):
            asyncio.run(self.poller.one_batch())
        return self


def partial_response(*ids):
    return Outcome(json.dumps({"batchItemFailures": [{"itemIdentifier": one} for one in ids]}).encode())


def test_without_a_window_what_a_poll_gives_is_a_batch():
    bench = Bench(*arrivals(3, at=7.0), (7.5, message("late"))).batches()
    assert bench.function.ids() == ["m0", "m1", "m2"]
    assert bench.clock.now == 7.0, "it is invoked at once"
    assert {at_most for at_most, _ in bench.queue.asked} == {10}
    assert min(wait_s for _, wait_s in bench.queue.asked) >= 1.0, "by long polls"


def test_a_batch_that_is_not_full_waits_for_its_window_from_its_first_message():
    bench = Bench((30.0, message(0)), (33.0, message(1)), (36.0, message(2)), batch_size=100, window_s=5.0).batches()
    assert bench.function.ids() == ["m0", "m1"]
    assert bench.clock.now == 35.0


def test_a_batch_closes_at_its_size():
    bench = Bench(*arrivals(60), batch_size=25, window_s=300.0).batches(2)
    assert [len(bench.function.ids(number)) for number in range(2)] == [25, 25]
    assert bench.clock.now == 0.0, "none waited for its window"
    assert max(asked for asked, _ in bench.queue.asked) == 10


def test_a_batch_closes_before_its_payload_is_too_large_and_loses_nothing():
    body = '"quoted"\né' * 60_000
    bench = Bench(*arrivals(20, body=body), batch_size=20, window_s=5.0)
    while sum(len(bench.function.ids(number)) for number in range(len(bench.function.payloads))) < 20:
        bench.batches()
    sizes = [len(payload) for payload in bench.function.payloads]
    assert max(sizes) <= MAX_PAYLOAD and sizes[0] + len(body.encode()) > MAX_PAYLOAD
    delivered = sum((bench.function.ids(number) for number in range(len(sizes))), [])
    assert delivered == [f"m{number}" for number in range(20)] == bench.queue.deleted


def test_a_success_lets_all_go_and_an_invocation_comes_once():
    bench = Bench(*arrivals(25), batch_size=25, window_s=1.0).batches()
    assert bench.queue.deleted == [f"m{number}" for number in range(25)]
    assert len(bench.function.payloads) == 1
    assert (bench.progress.events, bench.progress.messages, bench.progress.failures) == (1, 25, 0)


def test_a_partial_failure_keeps_what_is_named_and_lets_the_rest_go():
    bench = Bench(*arrivals(4), outcomes=[partial_response("m1", "m3")]).batches()
    assert bench.queue.deleted == ["m0", "m2"]
    assert (bench.progress.kept, bench.progress.failures) == (2, 0)


def test_all_may_be_named():
    bench = Bench(*arrivals(2), outcomes=[partial_response("m0", "m1")]).batches()
    assert bench.queue.deleted == []
    assert (bench.progress.kept, bench.progress.failures) == (2, 0)


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome.failed("Runtime.ExitError", "signal: SIGKILL"),
        Outcome(b'{"batchItemFailures": []}', "Unhandled"),
        partial_response("m0", "somebody else's"),
        OSError("no such program"),
    ],
    ids=["crash", "error", "malformed", "no start"],
)
def test_a_failed_event_lets_nothing_go_and_is_not_sent_again(outcome):
    bench = Bench(*arrivals(3), (1.0, message("next")), outcomes=[outcome]).batches(2)
    assert [bench.function.ids(number) for number in range(2)] == [["m0", "m1", "m2"], ["mnext"]]
    assert bench.queue.deleted == ["mnext"]
    assert bench.progress.failures == 1 and bench.progress.last_error


@pytest.mark.parametrize("answer", [b'{"batchItemFailures": []}', b'{"batchItemFailures": null}', b"{}", b"null", b""])
def test_answers_that_keep_nothing(answer):
    assert kept_by(answer, {"m0", "m1"}) == frozenset()


@pytest.mark.parametrize(
    "answer",
    [
        "not JSON",
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"itemIdentifier": None}]},
        {"batchItemFailures": [{"itemIdentifier": ["m0"]}]},
        {"batchItemFailures": [{"messageId": "m0"}]},
        {"batchItemFailures": [{"itemIdentifier": "m0"}, {"itemIdentifier": "m9"}]},
        {"batchItemFailures": ["m0"]},
        {"batchItemFailures": "m0"},
        ["m0"],
    ],
)
def test_answers_that_fail_the_whole_batch(answer):
    assert kept_by(answer.encode() if isinstance(answer, str) else json.dumps(answer).encode(), {"m0", "m1"}) is None


def test_a_throttled_batch_is_tried_until_its_messages_are_seen_again():
    bench = Bench(*arrivals(1), outcomes=[Throttled()] * 5).batches()
    assert len(bench.function.payloads) == 6 and bench.queue.deleted == ["m0"]
    bench = Bench(*arrivals(1), outcomes=[Throttled()] * 1_000, visibility_s=60.0).batches()
    assert 60.0 <= bench.clock.now < 61.0 and bench.queue.deleted == []


def test_a_queue_that_is_gone_for_a_while_is_polled_again():
    bench = Bench(*arrivals(1))
    bench.queue.refusals = 3
    bench.batches()
    assert bench.queue.deleted == ["m0"]
    assert bench.progress.last_error == "the queue is gone" and bench.progress.failures == 0


@pytest.mark.parametrize("config, allowed", [({}, 2), ({"max_concurrency": 5}, 5)])
def test_no_more_batches_are_in_flight_than_the_maximum_concurrency(config, allowed):
    in_flight, most, events = 0, 0, 0

    async def slow(_payload):
        nonlocal in_flight, most, events
        in_flight, events = in_flight + 1, events + 1
        most = max(most, in_flight)
        await asyncio.sleep(0.01)
        in_flight -= 1
        return SUCCESS

    class Plenty(FakeQueue):
        async def receive(self, at_most, wait_s):
            return [message(0)]

    async def for_a_while():
        running = asyncio.ensure_future(run(QueueMappingConfig(ARN, **config), Plenty(Clock()), slow, QueueProgress()))
        while events < 20:
            await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(for_a_while())
    assert most == allowed


@pytest.mark.parametrize(
    "refused, why",
    [
        ({"max_concurrency": 1}, "MaximumConcurrency"),
        ({"batch_size": 11}, "a window of 1 s"),
        ({"batch_size": 10_001, "window_s": 1.0}, "BatchSize"),
        ({"window_s": 301.0}, "MaximumBatchingWindowInSeconds"),
        ({"function_timeout_s": 31.0}, "time limit"),
    ],
)
def test_what_lambda_refuses_is_refused(refused, why):
    with pytest.raises(ValueError, match=why):
        QueueMappingConfig(ARN, **refused)


def test_a_record_has_the_fields_of_the_service():
    """The example of the documentation, with attributes of each kind."""
    system = {
        "ApproximateReceiveCount": "1",
        "SentTimestamp": "1545082649183",
        "SenderId": "AIDAIENQZJOLO23YVJ4VO",
        "ApproximateFirstReceiveTimestamp": "1545082649185",
    }
    received = {
        "MessageId": "059f36b4-87a3-44ab-83d2-661975830a7d",
        "ReceiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a...",
        "Body": "Test message.",
        "Attributes": system,
        "MessageAttributes": {
            "text": {"StringValue": "myValue", "DataType": "String"},
            "bytes": {"BinaryValue": b"\x00\xff", "DataType": "Binary"},
        },
        "MD5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "MD5OfMessageAttributes": "582c92c5c5b6ac403040a4f3ab3115c9",
    }
    lists = {"stringListValues": [], "binaryListValues": []}
    assert record(received, QueueMappingConfig(ARN)) == {
        "messageId": "059f36b4-87a3-44ab-83d2-661975830a7d",
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a...",
        "body": "Test message.",
        "attributes": system,
        "messageAttributes": {
            "text": {"stringValue": "myValue", **lists, "dataType": "String"},
            "bytes": {"binaryValue": "AP8=", **lists, "dataType": "Binary"},
        },
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "md5OfMessageAttributes": "582c92c5c5b6ac403040a4f3ab3115c9",
        "eventSource": "aws:sqs",
        "eventSourceARN": ARN,
        "awsRegion": "us-east-2",
    }


@pytest.fixture
def sqs(tmp_path):
    """A client of a real queue server, and the URL of a queue whose messages are hidden for a second."""
    (tmp_path / "log").mkdir()
    part, port = parts.start_queue_server(Workspace.here(), tmp_path, Ports())
    client = boto3.client(
        "sqs",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-2",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config(retries={"max_attempts": 0}),
    )
    try:
        yield client, client.create_queue(QueueName="my-queue", Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
    finally:
        part.stop()


def test_on_a_real_queue_what_is_kept_comes_again_and_the_rest_is_gone(sqs):
    client, url = sqs
    attributes = {"n": {"DataType": "Number", "StringValue": "7"}, "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
    client.send_message(QueueUrl=url, MessageBody="good é")
    bad = client.send_message(QueueUrl=url, MessageBody="bad", MessageAttributes=attributes)["MessageId"]
    seen = []

    async def function(payload):
        records = json.loads(payload)["Records"]
        seen.extend(records)
        tries = {one["messageId"]: one["attributes"]["ApproximateReceiveCount"] for one in records}
        return partial_response(bad) if tries.get(bad) == "1" else SUCCESS

    asyncio.run(_until(partial(_is_empty, client, url), client, url, function))
    deliveries = [one for one in seen if one["messageId"] == bad]
    assert [one["attributes"]["ApproximateReceiveCount"] for one in deliveries] == ["1", "2"]
    assert deliveries[0]["receiptHandle"] != deliveries[1]["receiptHandle"]
    assert deliveries[0]["messageAttributes"] == {
        "n": {"stringValue": "7", "stringListValues": [], "binaryListValues": [], "dataType": "Number"},
        "b": {"binaryValue": base64.b64encode(b"\x00\xff").decode(), "stringListValues": [], "binaryListValues": [], "dataType": "Binary"},
    }
    assert {"md5OfMessageAttributes", "md5OfBody"} <= deliveries[0].keys()
    [good] = [one for one in seen if one["messageId"] != bad]
    assert good["body"] == "good é" and good["messageAttributes"] == {} and "md5OfMessageAttributes" not in good
    assert {"SentTimestamp", "SenderId", "ApproximateFirstReceiveTimestamp"} <= good["attributes"].keys()
    assert good["eventSourceARN"].endswith(":my-queue") and good["awsRegion"] == "us-east-2"


def _is_empty(client, url):
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    return set(client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"].values()) == {"0"}


async def _until(done, client, url, function):
    arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    config = QueueMappingConfig(arn)
    progress = QueueProgress()
    running = asyncio.ensure_future(run(config, SqsQueue(client, url, config.max_concurrency), function, progress))
    for _ in range(300):
        await asyncio.sleep(0.1)
        if done():
            break
    running.cancel()
    assert done(), progress
