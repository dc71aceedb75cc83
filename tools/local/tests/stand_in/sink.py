"""Stand-ins for writer and committer, to try the run itself without them: naive, and right when nothing fails.

The writer appends with PyIceberg and leaves a note in the queue, the committer creates the tables and
clears the notes. They use each part's own keys, as the settings say.
"""

import base64
import json
import re
import sys
from datetime import datetime, timezone
from pathlib import Path

import boto3
import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from icefall_local.clickstream import COLUMNS, DEAD_LETTER_TABLE, ROW_SCHEMA, TABLE

_TYPES = {"string": StringType(), "long": LongType(), "timestamptz": TimestamptzType()}
LETTERS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC")),
     ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))), ("target_table", pa.string()), ("error_class", pa.string()),
     ("error_text", pa.string())]
)  # fmt: skip


class Sink:
    def __init__(self, settings: str) -> None:
        sections = dict(re.findall(r"^\[(\w+)\]\n(.*?)(?=^\[)", settings, re.M | re.S))
        self.catalog_section, self.store = sections["catalog"], sections["store"]
        self.ops, self.queue = sections["ops"], sections["queue"]
        key, secret = keys(self.catalog_section)
        store_key, store_secret = keys(self.store)
        self.catalog = RestCatalog(
            "sink",
            uri=value(self.catalog_section, "uri"),
            warehouse=value(self.catalog_section, "warehouse"),
            **{
                "rest.sigv4-enabled": "true",
                "rest.signing-name": "s3tables",
                "rest.signing-region": value(self.catalog_section, "region"),
                "client.region": value(self.catalog_section, "region"),
                "client.access-key-id": key,
                "client.secret-access-key": secret,
                "s3.endpoint": value(self.store, "endpoint"),
                "s3.region": value(self.store, "region"),
                "s3.access-key-id": store_key,
                "s3.secret-access-key": store_secret,
            },
        )
        self.s3 = client("s3", self.ops)
        self.sqs = client("sqs", self.queue)

    def commit(self, _event, _headers):
        fields = [
            NestedField(number, column.name, _TYPES[column.type], required=column.required)
            for number, column in enumerate(COLUMNS, 1)
        ]
        spec = PartitionSpec(PartitionField(len(COLUMNS), 1000, HourTransform(), "event_time_hour"))
        for name in (TABLE, DEAD_LETTER_TABLE):
            self.catalog.create_namespace_if_not_exists(name.split(".")[0])
        self.catalog.create_table_if_not_exists(TABLE, Schema(*fields), partition_spec=spec)
        self.catalog.create_table_if_not_exists(DEAD_LETTER_TABLE, LETTERS)
        url = value(self.queue, "url")
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def write(self, event, headers):
        rows, letters = [], []
        for record in (record for group in event["records"].values() for record in group):
            raw = None if record["value"] is None else base64.b64decode(record["value"])
            try:
                rows.append(row(json.loads(raw)))
            except Exception as problem:
                letters.append(letter(record, raw, problem))
        self.append(TABLE, pa.Table.from_pylist(rows, rows_schema()))
        self.append(DEAD_LETTER_TABLE, pa.Table.from_pylist(letters, LETTERS))
        note = headers["Lambda-Runtime-Aws-Request-Id"]
        self.s3.put_object(Bucket=value(self.ops, "bucket"), Key=f"notes/{note}", Body=b"written")
        self.sqs.send_message(QueueUrl=value(self.queue, "url"), MessageBody=note)

    def append(self, name, table):
        while table.num_rows:
            try:
                return self.catalog.load_table(name).append(table)
            except CommitFailedException:
                pass


def row(document):
    document["event_time"] = datetime.strptime(document["event_time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    pa.Table.from_pylist([document], rows_schema())
    if any(type(document[column.name]) is not (int if column.type == "long" else type(document[column.name]))
           for column in COLUMNS if column.required):
        raise TypeError("not a long")
    if any(document[column.name] is None for column in COLUMNS if column.required):
        raise TypeError("null where a value is required")
    return document


def letter(record, raw, problem):
    key = record.get("key")
    return {
        "topic": record["topic"],
        "partition": record["partition"],
        "offset": record["offset"],
        "timestamp": datetime.fromtimestamp(record["timestamp"] / 1000, timezone.utc),
        "key": None if key is None else base64.b64decode(key),
        "value": raw,
        "headers": [
            {"key": name, "value": bytes(byte & 0xFF for byte in value)}
            for header in record["headers"]
            for name, value in header.items()
        ],
        "target_table": TABLE,
        "error_class": type(problem).__name__,
        "error_text": str(problem) or "no text",
    }


def rows_schema():
    return pa.schema([field.with_nullable(not column.required) for field, column in zip(ROW_SCHEMA, COLUMNS)])


def value(section, name):
    return re.search(rf'\b{name} = "([^"]*)"', section).group(1)


def keys(section):
    return value(section, "access_key_id"), value(section, "secret_access_key")


def client(kind, section):
    key, secret = keys(section)
    return boto3.client(
        kind,
        endpoint_url=value(section, "endpoint"),
        region_name=value(section, "region"),
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )


if __name__ == "__main__":
    import os

    from runtime import serve

    sink = Sink(Path(os.environ["ICEFALL_SETTINGS"]).read_text())
    serve(getattr(sink, sys.argv[1]))
