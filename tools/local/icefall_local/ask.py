"""Asks PyIceberg and DuckDB what they see in a table: `python -m icefall_local.ask TABLE COLUMN [FILTER ...]`.

The tests use it to let other readers judge what was written. It prints one JSON object: per reader, for the whole
table (the empty filter) and for each filter, the values of the column, sorted. A filter is an expression that both
understand, such as `user_id = 7`; readers skip files by it, so a wrong partition value shows as missing rows.
`--run STATEMENT` lets DuckDB change the table first, as another engine; it may say `lake.TABLE`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from icefall_local.readers import open_catalog, open_duckdb
from icefall_local.stack import Stack


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="icefall_local.ask")
    parser.add_argument("--run", metavar="STATEMENT")
    parser.add_argument("table")
    parser.add_argument("column")
    parser.add_argument("filters", nargs="*")
    options = parser.parse_args(arguments)
    stack = Stack.read(Path(os.environ["ICEFALL_STACK"]))
    if options.run:
        with open_duckdb(stack) as connection:
            connection.execute(options.run)
    filters = ["", *options.filters]
    answers = {
        "duckdb": [_duckdb(stack, options.table, options.column, each) for each in filters],
        "pyiceberg": [_pyiceberg(stack, options.table, options.column, each) for each in filters],
    }
    json.dump(answers, sys.stdout)
    return 0


def _duckdb(stack: Stack, table: str, column: str, where: str) -> list[object]:
    condition = f" WHERE {where}" if where else ""
    with open_duckdb(stack) as connection:
        rows = connection.execute(f'SELECT "{column}" FROM lake.{table}{condition} ORDER BY ALL').fetchall()
    return [value for (value,) in rows]


def _pyiceberg(stack: Stack, table: str, column: str, where: str) -> list[object]:
    loaded = open_catalog(stack).load_table(table)
    scan = loaded.scan(row_filter=where, selected_fields=(column,)) if where else loaded.scan(selected_fields=(column,))
    return sorted(scan.to_arrow().column(column).to_pylist())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
