"""What the second catalog and the questions to the readers are made of; the servers themselves are up in Rust's tests."""

import dataclasses
import datetime
import decimal

import pyarrow as pa
import pytest

from icefall_local.java import Java
from icefall_local.settings_file import render
from icefall_local.stack import Service, Stack
from icefall_local.values import rows
from icefall_local.workspace import Unusable, Workspace


def test_what_was_not_built_is_named_with_what_to_do(tmp_path):
    with pytest.raises(Unusable, match="cargo xtask test --all"):
        Java.here(Workspace(tmp_path))


def test_values_have_one_form():
    before_1970 = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    columns = {
        "decimal": pa.array([decimal.Decimal("-0.50"), None], pa.decimal128(9, 2)),
        "micros": pa.array([before_1970, None], pa.timestamp("us")),
        "zoned": pa.array([-1, None], pa.timestamp("us", tz="UTC")),
        "nanos": pa.array([-1, None], pa.timestamp("ns")),
        "time": pa.array([datetime.time(1), None], pa.time64("us")),
        "bytes": pa.array([b"\xfe\x00", None], pa.binary()),
        "uuid": pa.array([bytes(range(16)), None], pa.uuid()),
        "map": pa.array([[("a", [1, None])], None], pa.map_(pa.string(), pa.list_(pa.int64()))),
        "struct": pa.array([{"x": datetime.date(2024, 2, 29)}, None], pa.struct([("x", pa.date32())])),
    }
    first, second = rows(pa.table(columns))
    assert first == {
        "decimal": "-0.50",
        "micros": "1969-12-31T23:59:59.999999",
        "zoned": "1969-12-31T23:59:59.999999+00:00",
        "nanos": "1969-12-31T23:59:59.999999999",
        "time": "01:00:00.000000",
        "bytes": "fe00",
        "uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f",
        "map": [["a", [1, None]]],
        "struct": {"x": "2024-02-29"},
    }
    assert set(second.values()) == {None}


def test_a_run_on_it_signs_in_nowhere_and_says_so():
    service = Service("http://127.0.0.1:1", "http://127.0.0.1:2", "", "", "")
    fields = {field.name: "x" for field in dataclasses.fields(Stack)}
    parts = dict.fromkeys(("catalog", "store", "ops", "queue"), service)
    stack = Stack(**{**fields, **parts, "second_catalog": None, "signed": True})
    texts = [render(one) for one in (stack, dataclasses.replace(stack, signed=False))]
    signed, unsigned = (text.split("[catalog]")[1].split("[store]")[0] for text in texts)
    assert "sign = {" in signed and "credentials = {" in signed
    assert [line.split(" = ")[0] for line in unsigned.split("\n") if line] == ["uri", "warehouse"]
