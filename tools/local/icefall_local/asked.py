"""Questions to the readers, all asked alike: `python -m icefall_local.asked STACK duckdb|pyiceberg|java`.

Standard input is `{"catalog": "first"|"second", "questions": [{"table": NAME, "where": PREDICATE}, ...]}`; standard
output is one answer for each, `{"rows": [{COLUMN: VALUE}, ...]}`, with `files` where the reader tells how many files
its planning was left with. A predicate is Iceberg's JSON, `{"type": "eq", "term": COLUMN, "value": SINGLE-VALUE}`,
and may be left out. `"row_ids": true` asks for the column `_row_id` too, which only the Java reader gives. Each reader reads as it pleases: what is compared is what it finds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from icefall_local.stack import Stack

Question = dict[str, Any]
Answer = dict[str, Any]


def ask(stack: Stack, reader: str, questions: list[Question]) -> list[Answer]:
    """Lets one reader answer."""
    return _ASK[reader](stack, questions)


def _duckdb(stack: Stack, questions: list[Question]) -> list[Answer]:
    from icefall_local import readers, values

    with readers.open_duckdb(stack) as connection:
        types = {}

        def answer(question: Question) -> Answer:
            table = f"lake.{question['table']}"
            if table not in types:
                described = connection.execute(f"DESCRIBE {table}").fetchall()
                types[table] = {name: kind for name, kind, *_ in described}
            where = ""
            if "where" in question:
                column, value = question["where"]["term"], question["where"]["value"]
                where = f'WHERE "{column}" = {_duckdb_literal(types[table][column], value)}'
            found = connection.execute(f"SELECT * FROM {table} {where}").to_arrow_table()
            return {"rows": values.rows(found)}

        return [answer(question) for question in questions]


def _duckdb_literal(kind: str, value: Any) -> str:
    """A constant of the column's type, which the planner can compare with bounds."""
    text = "'" + str(value).replace("'", "''") + "'"
    return f"unhex({text})" if kind == "BLOB" else f"CAST({text} AS {kind})"


def _pyiceberg(stack: Stack, questions: list[Question]) -> list[Answer]:
    from icefall_local import readers, values

    catalog = readers.open_catalog(stack)

    def answer(question: Question) -> Answer:
        table = catalog.load_table(question["table"])
        scan = table.scan(row_filter=_pyiceberg_filter(table, question["where"])) if "where" in question else table.scan()
        return {"rows": values.rows(scan.to_arrow()), "files": sum(1 for _ in scan.plan_files())}

    return [answer(question) for question in questions]


def _pyiceberg_filter(table: Any, where: dict[str, Any]) -> Any:
    from pyiceberg.expressions import EqualTo
    from pyiceberg.types import BinaryType, FixedType

    kind = table.schema().find_type(where["term"])
    value = bytes.fromhex(where["value"]) if isinstance(kind, BinaryType | FixedType) else where["value"]
    return EqualTo(where["term"], value)


def _java(stack: Stack, questions: list[Question]) -> list[Answer]:
    from icefall_local import readers
    from icefall_local.java import Java
    from icefall_local.workspace import Workspace

    command = Java.here(Workspace.here()).command("icefall.reader.TableReader")
    asked = json.dumps({"catalog": readers.java_properties(stack), "questions": questions})
    done = subprocess.run([str(word) for word in command], input=asked, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the Java reader ended with {done.returncode}:\n{done.stderr}")
    answers: list[Answer] = json.loads(done.stdout)
    return answers


_ASK: dict[str, Callable[[Stack, list[Question]], list[Answer]]] = {
    "duckdb": _duckdb,
    "pyiceberg": _pyiceberg,
    "java": _java,
}


def main(arguments: list[str]) -> None:
    stack, asked = Stack.read(Path(arguments[0])), json.load(sys.stdin)
    if asked["catalog"] == "second":
        stack = stack.on_second_catalog()
    json.dump(ask(stack, arguments[1], asked["questions"]), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
