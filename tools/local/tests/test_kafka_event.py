"""The event's shape, byte by byte as documented, and the payload's exact length."""

import json

import pytest
from messages import FakeMessage

from icefall_local.kafka_event import Origin, PayloadBuilder, RecordEncoder

SELF_MANAGED = Origin("127.0.0.1:9092")


def encoded(**fields):
    return json.loads(RecordEncoder("my-topic").encode(FakeMessage(0, 15, **fields)))


def event(messages, origin=SELF_MANAGED, batch_size=10_000, max_payload=6_291_456):
    builder, encoder = PayloadBuilder(origin, "my-topic", batch_size, max_payload), RecordEncoder("my-topic")
    for one in messages:
        assert builder.add(one.partition(), one.offset(), encoder.encode(one))
    return builder


def test_a_record_has_the_documented_fields_in_their_order():
    record = encoded(of_key=b"key", of_value=b"Hello", of_headers=(("headerKey", b"headerValue"),))
    assert record == {
        "topic": "my-topic",
        "partition": 0,
        "offset": 15,
        "timestamp": 1545084650987,
        "timestampType": "CREATE_TIME",
        "key": "a2V5",
        "value": "SGVsbG8=",
        "headers": [{"headerKey": [104, 101, 97, 100, 101, 114, 86, 97, 108, 117, 101]}],
    }
    assert list(record) == ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]


def test_a_null_key_is_absent_and_an_empty_one_is_not():
    assert "key" not in encoded(of_key=None)
    assert encoded(of_key=b"")["key"] == ""


def test_a_tombstone_is_null_and_an_empty_value_is_not():
    assert encoded(of_value=None)["value"] is None
    assert encoded(of_value=b"")["value"] == ""


def test_header_bytes_are_signed_and_names_may_repeat():
    headers = encoded(of_headers=(("a", b"\x00\x7f\x80\xff"), ("a", b""), ("b", None)))["headers"]
    assert headers == [{"a": [0, 127, -128, -1]}, {"a": []}, {"b": None}]


def test_timestamps_say_who_made_them():
    assert encoded(at=(2, 7))["timestampType"] == "LOG_APPEND_TIME"
    assert (encoded(at=(0, 0))["timestamp"], encoded(at=(0, 0))["timestampType"]) == (-1, "NO_TIMESTAMP_TYPE")


def test_both_flavours_of_the_envelope():
    one = event([FakeMessage(0, 1)])
    assert list(json.loads(one.payload()))[:2] == ["eventSource", "bootstrapServers"]
    assert json.loads(one.payload())["eventSource"] == "SelfManagedKafka"
    msk = json.loads(event([FakeMessage(0, 1)], Origin("b-1:9092,b-2:9092", "arn:aws:kafka:x")).payload())
    assert (msk["eventSource"], msk["eventSourceArn"]) == ("aws:kafka", "arn:aws:kafka:x")
    assert msk["bootstrapServers"] == "b-1:9092,b-2:9092"


def test_partitions_are_mixed_and_grouped_under_their_names():
    payload = json.loads(event([FakeMessage(0, 1), FakeMessage(2, 7), FakeMessage(0, 2)]).payload())
    assert {name: [one["offset"] for one in group] for name, group in payload["records"].items()} == {
        "my-topic-0": [1, 2],
        "my-topic-2": [7],
    }


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_length_is_the_payloads_own(partitions):
    builder = event([FakeMessage(number % partitions, number, b"x" * number) for number in range(50)])
    assert len(builder) == len(builder.payload())


def test_a_payload_never_exceeds_its_limit_and_fills_it():
    encoder, message = RecordEncoder("my-topic"), FakeMessage(0, 1, b"x" * 1_000)
    whole = len(event([message, message]).payload())
    for limit, fits in ((whole, True), (whole - 1, False)):
        builder = PayloadBuilder(SELF_MANAGED, "my-topic", 10, limit)
        assert builder.add(0, 1, encoder.encode(message))
        assert builder.add(0, 1, encoder.encode(message)) is fits
        assert len(builder.payload()) <= limit


def test_next_offsets_are_one_after_the_last():
    assert event([FakeMessage(0, 1), FakeMessage(0, 9), FakeMessage(3, 4)]).next_offsets == {0: 10, 3: 5}
