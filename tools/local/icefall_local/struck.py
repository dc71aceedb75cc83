"""What a run that asked for chaos must have met: each thing at least once.

A run whose committers never died at work proves nothing about committers that die. So a run of some size ends badly when
something that was asked for never struck, and it gives chance its time: the last records are held back, and come slowly, until
all has struck. A run that is too small for that only says what it did not meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # The command line reads the bounds, and must not wait for all that a stack is made of.
    from icefall_local.supervisor import Options

LEAST_RECORDS = 10_000
"""From so many records on it is demanded: a tenth of fewer would be no stream."""
HELD_BACK_S = 60.0
"""How long the records that are held back last, at the most."""
_HELD_BACK_SHARE = 10


def held_back(asked: Options, records: int) -> int:
    """How many records of a run come last, and slowly: a tenth, where anything is demanded."""
    demands = records >= LEAST_RECORDS and (asked.chaos.any or asked.hostile is not None or asked.rivals)
    return records // _HELD_BACK_SHARE if demands else 0


def never_struck(asked: Options, functions: Mapping[str, Mapping[str, Any]], counted: Mapping[str, int]) -> list[str]:
    """What was asked for and did not happen, by the host's counts of the functions and the committer's own metrics.

    On a hostile network committers work for long and most of them die before they tell what they counted: it is not demanded then.
    """
    missing = [f"no {name} was killed at work" for name in asked.chaos.victims if not functions[name]["kills_in_flight"]]
    if asked.hostile is not None:
        return missing
    if asked.chaos.any and not counted["DuplicateBatches"]:
        missing.append("no batch manifest came twice and was skipped (duplicates_skipped)")
    if asked.chaos.any and not counted["TrimmedBatches"]:
        missing.append("no batch came again with other boundaries and was trimmed (trims)")
    if asked.rivals and not counted["CommitConflicts"]:
        missing.append(f"none of {asked.committers} committers was in another one's way (conflicts)")
    return missing
