"""What the benchmarks found, the bounds it is held to, and both ways of showing it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figures:
    """One run's results. Megabytes are 10^6 bytes, MiB 2^20; the times of init are medians."""

    writer_records_per_cpu_second: int
    peer_records_per_cpu_second: int
    ratio: float
    writer_peak_rss_mib: float
    """Of a fresh process that has written one event of 6 MB."""
    writer_zip_mb: float
    committer_zip_mb: float
    init_warm_ms: float
    """The writer, from exec to its first poll, its program in the page cache."""
    init_cold_ms: float
    """The same with the program evicted from the page cache."""
    hello_init_warm_ms: float
    hello_init_cold_ms: float
    commit_cpu_ms: Mapping[str, float]
    """The committer's CPU for one invocation with one batch manifest, by the table's snapshots."""

    # Beyond what is bounded.
    committer_init_warm_ms: float
    committer_init_cold_ms: float
    writer_peak_rss_all_mib: float
    """Of the same process after all events."""
    events: int
    records: int
    """In all events measured."""
    audit_records_per_cpu_second: int = 0
    """Of the topic that an audit reads and proves."""

    def as_json(self) -> str:
        """One line, one object."""
        return json.dumps(asdict(self))

    def missed(self) -> list[str]:
        """The bounds that do not hold, each as a sentence."""
        return [sentence for bound in BOUNDS if (sentence := bound.missed_by(getattr(self, bound.name)))]


@dataclass(frozen=True)
class Bound:
    """The least or the most that a figure may be."""

    name: str
    least: float | None = None
    most: float | None = None

    def missed_by(self, value: float) -> str | None:
        if self.least is not None and value < self.least:
            return f"{self.name} is {value}: at least {self.least} is required"
        if self.most is not None and value > self.most:
            return f"{self.name} is {value}: at most {self.most} is allowed"
        return None


BOUNDS = (
    Bound("ratio", least=2.5),
    Bound("writer_peak_rss_mib", most=64),
    Bound("writer_zip_mb", most=8),
    Bound("committer_zip_mb", most=8),
)
"""Only what does not depend on the machine's speed."""


def table(figures: Figures) -> str:
    """For people."""
    commits = "   ".join(f"{cost:.1f} at {snapshots}" for snapshots, cost in figures.commit_cpu_ms.items())
    rows = [
        ("writer", f"{figures.writer_records_per_cpu_second:,} records per CPU-second"),
        ("pyarrow script", f"{figures.peer_records_per_cpu_second:,} records per CPU-second"),
        ("ratio", f"{figures.ratio:.2f} (at least 2.5)"),
        (
            "writer's peak memory",
            f"{figures.writer_peak_rss_mib:.1f} MiB after one event of 6 MB (at most 64), "
            f"{figures.writer_peak_rss_all_mib:.1f} MiB after all",
        ),
        ("zips", f"writer {figures.writer_zip_mb:.2f} MB, committer {figures.committer_zip_mb:.2f} MB (at most 8 each)"),
        (
            "init, warm",
            f"writer {figures.init_warm_ms:.1f} ms, committer {figures.committer_init_warm_ms:.1f} ms, "
            f"hello {figures.hello_init_warm_ms:.1f} ms",
        ),
        (
            "init, cold files",
            f"writer {figures.init_cold_ms:.1f} ms, committer {figures.committer_init_cold_ms:.1f} ms, "
            f"hello {figures.hello_init_cold_ms:.1f} ms",
        ),
        ("a commit's CPU", f"{commits} snapshots, in ms"),
        ("audit", f"{figures.audit_records_per_cpu_second:,} records per CPU-second"),
        ("measured", f"{figures.events} events of 6 MB with {figures.records:,} records"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:{width}}  {text}" for name, text in rows)
