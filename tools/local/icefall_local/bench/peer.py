"""The yardstick: what a Python function would do with the same event, as fast as its libraries allow.

It is a program of its own, run by `throughput`: for each path on standard input it reads the event, decodes
the records, converts them to the table's types, writes Parquet with the same codec and level and uploads
it; then it prints the records and the CPU time that took. One thread, as the writer. It checks nothing, has
no dead letters, splits nothing by partition, keeps no offsets: everything that is left out favours it.
"""

from __future__ import annotations

import base64
import io
import json
import os
import sys
import time
import uuid
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet

from icefall_local.clickstream import ROW_SCHEMA

_READ = pa.json.ReadOptions(use_threads=False)
_PARSE = pa.json.ParseOptions(explicit_schema=ROW_SCHEMA)


def parquet_of(event: bytes) -> tuple[int, bytes]:
    """The records of an event: how many, and all of them as one Parquet file."""
    partitions = json.loads(event)["records"].values()
    values = [base64.b64decode(record["value"]) for records in partitions for record in records]
    table = pa.json.read_json(io.BytesIO(b"\n".join(values)), read_options=_READ, parse_options=_PARSE)
    file = io.BytesIO()
    pa.parquet.write_table(table, file, compression="zstd", compression_level=1, use_dictionary=True)
    return table.num_rows, file.getvalue()


def main() -> None:
    """`python -m icefall_local.bench.peer`, with the store in the environment as `PEER_…` and AWS's own names."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    bucket = os.environ["PEER_BUCKET"]
    store = boto3.client("s3", endpoint_url=os.environ["PEER_ENDPOINT"])
    for line in sys.stdin:
        began = time.process_time_ns()
        records, file = parquet_of(Path(line.rstrip("\n")).read_bytes())
        store.put_object(Bucket=bucket, Key=f"bench/{uuid.uuid4()}.parquet", Body=file)
        used = time.process_time_ns() - began
        print(json.dumps({"records": records, "cpu_ns": used}), flush=True)


if __name__ == "__main__":
    main()
