"""What the functions do, read from their sources: the calls that permissions and alarms have to cover."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from cloudformation import REPOSITORY

FUNCTIONS = ("writer", "committer")


@cache
def sources(function: str) -> str:
    """All of a function's own source, tests and comments left out."""
    files = sorted((REPOSITORY / "functions" / function / "src").rglob("*.rs"))
    lines = (line for file in files for line in _without_tests(file).splitlines())
    return "\n".join(line for line in lines if not line.lstrip().startswith("//"))


def _without_tests(file: Path) -> str:
    return file.read_text().split("#[cfg(test)]\nmod tests {")[0]


def calls(function: str, port: str) -> set[str]:
    """The methods of a port that a function calls, however the port is reached."""
    pattern = rf"\b{port}(?:\(\))?(?:\s*\.\s*as_ref\(\))?\s*\.\s*(\w+)\("
    return set(re.findall(pattern, sources(function))) - {"as_ref", "clone"}


def object_calls(function: str) -> set[str]:
    """The methods of the object store port that a function calls itself: all take a location first."""
    return set(re.findall(r"\.\s*(\w+)\(\s*&\s*[Ll]ocation\b", sources(function)))


def uses_file_io(function: str) -> bool:
    """Whether `iceberg` reads and writes through the function's table store."""
    return "file_io(" in sources(function)


def reads_settings(function: str) -> bool:
    """Whether a function makes its parts of the settings, and so asks for all that they refer to."""
    return "Parts::from_environment(" in sources(function)


@cache
def secret_actions() -> set[str]:
    """What reading secrets of the settings needs, as the module that reads them tells operators."""
    return set(re.findall(r'^\s+needs: "([a-z]+:\w+)",$', _source("shared/parts/src/secrets.rs"), re.MULTILINE))


def assumes_roles() -> bool:
    """Whether the function's own role asks for the roles of the settings. A web identity's token asks for itself."""
    return "AssumeRoleProvider::builder(" in _source("shared/parts/src/keys.rs")


def heartbeat_slots() -> int:
    """How many committers at once tell that they live."""
    return int(re.search(r"HEARTBEAT_SLOTS: usize = (\d+);", _source("shared/store/src/ops/heartbeat.rs"))[1])


def _source(path: str) -> str:
    return (REPOSITORY / path).read_text()


@cache
def ops_bucket_layout() -> dict[str, dict[str, set[str]]]:
    """Who reads and who writes below each of the ops bucket's prefixes, by the table in the module that owns it."""
    text = (REPOSITORY / "shared/store/src/ops.rs").read_text()
    layout: dict[str, dict[str, set[str]]] = {"read": {}, "write": {}}
    for key, writers, readers in re.findall(r"^//! \| `([a-z-]+)/[^|]*\|[^|]*\|([^|]*)\|([^|]*)\|$", text, re.MULTILINE):
        for how, who in (("write", writers), ("read", readers)):
            for function in FUNCTIONS:
                if function in who or "both" in who:
                    layout[how].setdefault(function, set()).add(key)
    return layout


@cache
def metrics() -> dict[str, tuple[str, ...]]:
    """Every listed metric with the dimensions that it is told apart by."""
    text = (REPOSITORY / "shared/telemetry/METRICS.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| ([a-z, ]+) \|", text, re.MULTILINE)
    return {name: tuple(by.split(", ")) for name, by in rows}


@cache
def metrics_that_call_for_an_alarm() -> set[str]:
    text = (REPOSITORY / "shared/telemetry/METRICS.md").read_text()
    return set(re.findall(r"^\| `(\w+)` \|.*\bAlarm\b", text, re.MULTILINE))


@cache
def emitters() -> dict[str, set[str]]:
    """Which functions measure each metric, by the recorder's methods that they call."""
    recorder = (REPOSITORY / "shared/telemetry/src/recorder.rs").read_text()
    found: dict[str, set[str]] = {name: set() for name in metrics()}
    for method, body in re.findall(r"    pub fn (\w+)\(&self.*?\{\n(.*?)\n    \}\n", recorder, re.DOTALL):
        for name in re.findall(r"Metric::(\w+)", body):
            found[name] |= {one for one in FUNCTIONS if re.search(rf"\.\s*{method}\(", sources(one))}
    return found


@cache
def settings_keys() -> set[str]:
    """Every key of the settings as a path, such as `store.credentials.access_key_id`."""
    text = (REPOSITORY / "shared/settings/SETTINGS.md").read_text()
    keys: set[str] = set()
    for title, body in re.findall(r"^### (.+?)\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL):
        names = re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE)
        sections = re.findall(r"\[([a-z_.]+)\]", title)
        parents = [f"{one}." for one in sections] if title != "top level" else [""]
        if title.startswith("credentials of"):
            parents = [f"{one}credentials." for one in parents]
        keys |= {parent + name for parent in parents for name in names}
    return keys
