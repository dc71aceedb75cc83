"""Another engine at work on a table: `python -m icefall_local.other_engine STACK`.

Standard input is an order, `{"catalog": "first"|"second", "table": NAME, ...}`, whose other keys `OtherEngine` of
`tests/java` explains. It fails with what that said.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from icefall_local import readers
from icefall_local.java import Java
from icefall_local.stack import Stack
from icefall_local.workspace import Workspace


def main(arguments: list[str]) -> None:
    stack, order = Stack.read(Path(arguments[0])), json.load(sys.stdin)
    if order["catalog"] == "second":
        stack = stack.on_second_catalog()
    order["catalog"] = readers.java_properties(stack)
    command = [str(word) for word in Java.here(Workspace.here()).command("icefall.engine.OtherEngine")]
    done = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the other engine ended with {done.returncode}:\n{done.stderr}")


if __name__ == "__main__":
    main(sys.argv[1:])
