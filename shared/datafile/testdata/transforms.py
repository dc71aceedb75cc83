"""Writes transforms.json: partition values as PyIceberg computes them, for every transform and source type.

Run it with the local stack's Python, which has PyIceberg (made by `cargo xtask up`):

    .local/venv/bin/python shared/datafile/testdata/transforms.py > shared/datafile/testdata/transforms.json

Each entry has the source's type, a value of it as a record's JSON would carry it, the transform, the value of the
partition in Iceberg's single-value serialization (hexadecimal), and the folder that PyIceberg names for it.
"""

import base64
import datetime
import decimal
import json
import sys
import uuid

import pyiceberg
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

EPOCH = datetime.datetime(1970, 1, 1)
PERIODS = ["year", "month", "day"]
MOMENTS = [
    "1970-01-01T00:00:00",
    "1970-01-01T00:00:00.000001",
    "1969-12-31T23:59:59.999999",
    "1969-12-31T00:00:00",
    "1969-12-30T23:59:59.999999",
    "1969-12-30T23:59:59.500000",
    "1969-12-31T22:59:59.999999",
    "1969-11-30T23:00:00.000001",
    "1968-02-29T12:00:00.250000",
    "1900-03-01T00:00:00",
    "1600-12-31T23:59:59.000001",
    "0001-01-01T00:00:00",
    "2017-11-16T22:31:08",
    "2017-11-16T22:31:08.000001",
    "2024-02-29T23:59:59.999999",
    "9999-12-31T23:59:59.999999",
]
# What a moment adds in nanoseconds; 1677 to 2262 alone can be counted in them.
NANOS = [0, 1, 999]


def micros(text):
    """Microseconds since the epoch."""
    passed = datetime.datetime.fromisoformat(text) - EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def buckets(*numbers):
    return [f"bucket[{number}]" for number in numbers]


def truncations(*widths):
    return [f"truncate[{width}]" for width in widths]


def cases():
    """Type, its name, the record's JSON, PyIceberg's own value, transforms."""
    integers = [0, 1, -1, 5, -5, 10, -10, 34, 100, -101, 2**31 - 1, -(2**31) + 100]
    for number in integers:
        yield IntegerType(), "int", number, number, ["identity", "void", *buckets(1, 16, 2**31 - 1), *truncations(1, 7, 10)]
    for number in [*integers, 2**40, -(2**40) - 1, 2**63 - 1, -(2**63) + 1000]:
        yield LongType(), "long", number, number, ["identity", "void", *buckets(16, 1000), *truncations(1, 10, 2**31 - 1)]
    for text in ["14.20", "0.00", "0.01", "-0.01", "1.27", "1.28", "-1.28", "-1.29", "10.65", "-10.65", "12345678901234567.89", "-99999999999999999.99"]:
        number = decimal.Decimal(text)
        # PyIceberg 0.11.1 hashes -128 as two bytes, where the specification and Iceberg's Java library take the fewest.
        hashed = [] if text == "-1.28" else buckets(16)
        yield DecimalType(20, 2), "decimal", text, number, ["identity", "void", *hashed, *truncations(1, 50, 1000)]
    for text in sorted({moment[:10] for moment in MOMENTS}):
        days = (datetime.date.fromisoformat(text) - EPOCH.date()).days
        yield DateType(), "date", text, days, ["identity", "void", *buckets(16), *PERIODS]
    for text in ["22:31:08", "00:00", "23:59:59.999999"]:
        time = datetime.time.fromisoformat(text)
        passed = ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond
        yield TimeType(), "time", text, passed, ["identity", "void", *buckets(16)]
    for text in MOMENTS:
        transforms = ["identity", "void", *buckets(16), *PERIODS, "hour"]
        yield TimestampType(), "local", text, micros(text), transforms
        yield TimestamptzType(), "at", f"{text}Z", micros(text), transforms
        for extra in NANOS if 1678 <= int(text[:4]) <= 2261 else []:
            nanos = micros(text) * 1000 + extra
            fraction = f"{text}.000000"[len("1970-01-01T00:00:00."):][:6]
            precise = f"{text[:19]}.{fraction}{extra:03}"
            yield TimestampNanoType(), "local_ns", precise, nanos, transforms
            yield TimestamptzNanoType(), "nanos", f"{precise}Z", nanos, transforms
    for text in ["", "iceberg", "a", "São Paulo/x?=%", "ab\u0301c", "\U0001f600\U0001f601\U0001f602x", "a b+c", "é" * 10]:
        yield StringType(), "city", text, text, ["identity", "void", *buckets(16), *truncations(1, 3, 100)]
    for text in ["f79c3e09-677c-4bbd-a479-3f349cb785e7", "00000000-0000-0000-0000-000000000000"]:
        yield UUIDType(), "uuid", text, uuid.UUID(text), ["identity", "void", *buckets(16)]
    for raw in [b"\x00\x01\x02", b"\xff\xfe\xfd"]:
        yield FixedType(3), "fixed", base64.b64encode(raw).decode(), raw, ["identity", "void", *buckets(16)]
    for raw in [b"", b"\x00\x01\x02\x03", b"\xff\xfb\xef\x80" * 3]:
        yield BinaryType(), "binary", base64.b64encode(raw).decode(), raw, ["identity", "void", *buckets(16), *truncations(1, 3, 100)]
    for truth in [True, False]:
        yield BooleanType(), "boolean", truth, truth, ["identity", "void"]
    for number in [0.0, 1.5, -2.25]:
        yield FloatType(), "float", number, number, ["identity", "void"]
        yield DoubleType(), "double", number, number, ["identity", "void"]


def entry(source, column, record, value, name):
    transform = parse_transform(name)
    result_type = transform.result_type(source)
    result = transform.transform(source)(value)
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=transform, name="p"))
    schema = Schema(NestedField(1, column, source, required=False))
    return {
        "column": column,
        "record": record,
        "transform": name,
        "partition": None if result is None else to_bytes(result_type, result).hex(),
        "path": spec.partition_to_path(Record(result), schema),
    }


def main():
    entries = [entry(source, column, record, value, name) for source, column, record, value, names in cases() for name in names]
    lines = ",\n".join(json.dumps(each) for each in entries)
    sys.stdout.write(f'{{"made_by": "PyIceberg {pyiceberg.__version__}", "entries": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
