"""The crash points of infra/CRASH_POINTS.md, as they are driven on real parts: one row of that table each.

A row says at which request of which function its process is struck, how matters come to that request, what a look right
afterwards shows, and how things stand in the end. `crash_bench` plays them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

ROWS, LETTERS = "/events", "/dead_letters"
"""What paths of the two tables hold."""
TOPIC, OUTBOX = "/crash-", "/outbox"
"""What the register's keys end in: a topic's entry, and the dead-letter table's."""


class Scene(Enum):
    """How matters come to the request."""

    WRITER = "a batch is written"
    LARGE_WRITER = "a batch is written whose batch manifest is too large for a message"
    UNREADABLE = "an event is written that can't be read"
    FIRST_RUN = "the committer runs for the first time"
    COMMITTER = "a batch is committed"
    GATHERING = "a batch is held while the committer gathers more"
    LARGE_COMMITTER = "a batch is committed whose batch manifest is too large for a message"
    SECOND = "a batch is committed after another one, with dead letters in both"
    MERGE = "a batch is committed to a table whose small manifests are due to be merged"
    TRIM = "a batch is committed half of whose records are settled"
    RENAMED = "a batch is decided that goes to quarantine: the cluster has another name than before"
    FROZEN = "a batch is committed by a committer that freezes, while another one goes on"


@dataclass(frozen=True)
class CrashPoint:
    """A row of the table."""

    id: str
    scene: Scene
    moment: str
    call: str
    about: str = ""
    nth: int = 1
    left: Mapping[str, int] = field(default_factory=dict)
    """What a look right after the strike shows; see `crash_bench.Seen`."""
    snapshots: tuple[int, int] = (1, 1)
    """Of the table and of the dead-letter table in the end."""
    unnamed: int | None = 0
    """Data files of the table in the end that no snapshot names; None where that depends on which of two requests was first."""
    conflicts: int = 0
    """Commits that are refused at the least, because another committer's was taken meanwhile."""

    @property
    def function(self) -> str:
        return "writer" if self.id.startswith("W") else "committer"

    @property
    def act(self) -> str:
        return "freeze" if self.scene is Scene.FROZEN else "kill"


def _both(ids: tuple[str, str], scene: Scene, call: str, before: Mapping[str, int], after: Mapping[str, int], **more):
    """The two points of one request."""
    found = zip(ids, ("before", "after"), (before, after), strict=True)
    return [CrashPoint(one, scene, moment, call, left=left, **more) for one, moment, left in found]


_QUEUED = {"queued": 1, "snapshots": 0, "letter_snapshots": 0}
_BUILT = {**_QUEUED, "segments": 1}
_COMMITTED = {"queued": 1, "snapshots": 1, "letter_snapshots": 0, "segments": 1}
_LET_GO = {"queued": 0, "snapshots": 1, "letter_snapshots": 0}
_SECOND = {"queued": 1, "snapshots": 1, "letter_snapshots": 1}
_DELIVERED = {"queued": 0, "snapshots": 1, "letter_snapshots": 1}
_PUT_ASIDE = {"queued": 1, "snapshots": 1}

CRASH_POINTS: list[CrashPoint] = [
    CrashPoint("W1", Scene.WRITER, "before", "load-table", left={"data_files": 0, "letter_files": 0, "queued": 0}),
    CrashPoint("W2", Scene.WRITER, "before", "put-data-file", left={"data_files": 0, "queued": 0}),
    CrashPoint("W3", Scene.WRITER, "after", "put-data-file", left={"data_files": 1, "queued": 0}, unnamed=1),
    CrashPoint("W4", Scene.WRITER, "before", "put-dead-letters", left={"letter_files": 0, "queued": 0}, unnamed=None),
    CrashPoint("W5", Scene.WRITER, "after", "put-dead-letters", left={"letter_files": 1, "queued": 0}, unnamed=None),
    *_both(("W6", "W7"), Scene.LARGE_WRITER, "put-spill", {"spills": 0, "queued": 0}, {"spills": 1, "queued": 0}, unnamed=None),
    CrashPoint("W8", Scene.WRITER, "before", "send", left={"data_files": 1, "letter_files": 1, "queued": 0}, unnamed=1),
    CrashPoint("W9", Scene.WRITER, "after", "send", left={"data_files": 1, "letter_files": 1, "queued": 1}, unnamed=1),
    *_both(("W10", "W11"), Scene.UNREADABLE, "put-quarantined-message",
           {"quarantined_messages": 0}, {"quarantined_messages": 1, "quarantine_entries": 0}),
    *_both(("W12", "W13"), Scene.UNREADABLE, "put-quarantine-entry",
           {"quarantined_messages": 1, "quarantine_entries": 0}, {"quarantined_messages": 1, "quarantine_entries": 1}),

    *_both(("C1", "C2"), Scene.FIRST_RUN, "create-namespace", {"tables": 0}, {"tables": 0}),
    *_both(("C3", "C4"), Scene.FIRST_RUN, "create-table", {"tables": 0}, {"tables": 1}),
    CrashPoint("C5", Scene.FIRST_RUN, "after", "create-table", nth=2, left={"tables": 2}),
    *_both(("C6", "C7"), Scene.GATHERING, "receive", _QUEUED, {**_QUEUED, "hidden": 1}),
    *_both(("C8", "C9"), Scene.GATHERING, "hide", {**_QUEUED, "hidden": 1}, {**_QUEUED, "hidden": 1}),
    *_both(("C10", "C11"), Scene.COMMITTER, "put-heartbeat", {**_QUEUED, "begun": 0}, {**_QUEUED, "begun": 1}),
    *_both(("C12", "C13"), Scene.COMMITTER, "put-segment", {**_QUEUED, "segments": 0, "begun": 1}, _BUILT),
    *_both(("C14", "C15"), Scene.COMMITTER, "put-manifest", {**_BUILT, "manifests": 0}, {**_BUILT, "manifests": 1}, about=ROWS),
    *_both(("C16", "C17"), Scene.COMMITTER, "put-manifest-list",
           {**_BUILT, "manifests": 1, "manifest_lists": 0}, {**_BUILT, "manifests": 1, "manifest_lists": 1}, about=ROWS),
    *_both(("C18", "C19"), Scene.COMMITTER, "commit", {**_BUILT, "manifest_lists": 1}, {**_COMMITTED, "registered": 0}, about=ROWS),
    *_both(("C20", "C21"), Scene.COMMITTER, "put-clusters", {**_COMMITTED, "clusters": 0}, {**_COMMITTED, "clusters": 1}, about=TOPIC),
    *_both(("C22", "C23"), Scene.COMMITTER, "put-register", {**_COMMITTED, "registered": 0}, {**_COMMITTED, "registered": 1},
           about=TOPIC),
    *_both(("C24", "C25"), Scene.COMMITTER, "delete", {**_COMMITTED, "registered": 1}, _LET_GO),
    *_both(("C26", "C27"), Scene.COMMITTER, "put-data-file", {**_LET_GO, "delivered_files": 0}, {**_LET_GO, "delivered_files": 1},
           about=LETTERS),
    *_both(("C28", "C29"), Scene.COMMITTER, "put-manifest", _LET_GO, _LET_GO, about=LETTERS),
    *_both(("C30", "C31"), Scene.COMMITTER, "put-manifest-list", _LET_GO, _LET_GO, about=LETTERS),
    *_both(("C32", "C33"), Scene.COMMITTER, "commit", _LET_GO, {**_DELIVERED, "registered": 1}, about=LETTERS),
    *_both(("C34", "C35"), Scene.COMMITTER, "put-clusters", _DELIVERED, _DELIVERED, about=OUTBOX),
    *_both(("C36", "C37"), Scene.COMMITTER, "put-register", {**_DELIVERED, "registered": 1}, {**_DELIVERED, "registered": 2},
           about=OUTBOX),
    *_both(("C38", "C39"), Scene.COMMITTER, "put-heartbeat", {**_DELIVERED, "begun": 1}, {**_DELIVERED, "begun": 0}, nth=2),
    *_both(("C40", "C41"), Scene.SECOND, "commit", {**_SECOND, "in_outbox": 1}, {**_SECOND, "snapshots": 2, "in_outbox": 1},
           about=ROWS, snapshots=(2, 2)),
    *_both(("C42", "C43"), Scene.MERGE, "put-manifest", {"queued": 1, "snapshots": 3, "manifests": 4},
           {"queued": 1, "snapshots": 3, "manifests": 5}, about=ROWS, nth=2, snapshots=(4, 4)),
    *_both(("C44", "C45"), Scene.TRIM, "put-data-file", {**_SECOND, "data_files": 2}, {**_SECOND, "data_files": 3},
           about=ROWS, snapshots=(2, 2), unnamed=None),
    *_both(("C46", "C47"), Scene.TRIM, "put-dead-letters", {**_SECOND, "letter_files": 2}, {**_SECOND, "letter_files": 3},
           snapshots=(2, 2), unnamed=None),
    CrashPoint("C48", Scene.LARGE_COMMITTER, "after", "commit", ROWS, left={**_COMMITTED, "spills": 1}, snapshots=(1, 1)),
    *_both(("C49", "C50"), Scene.RENAMED, "put-quarantine-copy", {**_PUT_ASIDE, "quarantine_copies": 0},
           {**_PUT_ASIDE, "quarantine_copies": 1}, unnamed=1),
    *_both(("C51", "C52"), Scene.RENAMED, "put-quarantined-message",
           {**_PUT_ASIDE, "quarantine_copies": 1, "quarantined_messages": 0}, {**_PUT_ASIDE, "quarantined_messages": 1}, unnamed=1),
    *_both(("C53", "C54"), Scene.RENAMED, "put-quarantine-entry", {**_PUT_ASIDE, "quarantine_entries": 0},
           {**_PUT_ASIDE, "quarantine_entries": 1}, unnamed=1),
    *_both(("C55", "C56"), Scene.RENAMED, "delete", {**_PUT_ASIDE, "quarantine_entries": 1},
           {"queued": 0, "quarantine_entries": 1}, unnamed=1),

    CrashPoint("F1", Scene.FROZEN, "after", "receive", left=_QUEUED),
    CrashPoint("F2", Scene.FROZEN, "before", "put-segment", left=_QUEUED, conflicts=1),
    CrashPoint("F3", Scene.FROZEN, "before", "commit", left=_QUEUED, about=ROWS, conflicts=1),
    CrashPoint("F4", Scene.FROZEN, "after", "commit", left=_COMMITTED, about=ROWS),
    CrashPoint("F5", Scene.FROZEN, "before", "delete", left=_COMMITTED),
    CrashPoint("F6", Scene.FROZEN, "before", "commit", left=_LET_GO, about=LETTERS, conflicts=1),
    CrashPoint("F7", Scene.FROZEN, "after", "commit", left=_DELIVERED, about=LETTERS),
]
