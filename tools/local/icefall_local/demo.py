"""The main job, end to end: produce, wait until all is committed, verify by two readers and an audit, print the figures.

It succeeds only when both readers find every record produced exactly once, as a row with the right values
or as a dead letter with the right bytes, when `icefall audit` proves the same from the topic itself, when each part saw
its own access key and no other, when a network that was to be hostile was so in each of its ways to each part, and when
all chaos that was asked for struck; see `struck`.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from icefall_local import freshness, hostility, sabotage, struck
from icefall_local.audit import Audited, AuditFailed, audit
from icefall_local.broker_restart import BrokerRestart
from icefall_local.clickstream import TABLE
from icefall_local.expectation import Expectation
from icefall_local.generator import Generator, Pace, Plan
from icefall_local.keys_proxy import UNSIGNED
from icefall_local.launch import Running
from icefall_local.querying import how_to_query
from icefall_local.readers import READERS
from icefall_local.stack import Stack
from icefall_local.supervisor import Options
from icefall_local.terminal import Terminal
from icefall_local.transactions import TransactionalGenerator
from icefall_local.verify import Reading, verify
from icefall_local.watch import View, Watcher, mapping_progress, metric_sums
from icefall_local.workspace import Workspace

_LOOK_EVERY_S = 0.5
_COUNTED = ("CommitConflicts", "DuplicateBatches", "TrimmedBatches")
"""Of the committer's own metrics: what only it can know."""


class DemoFailed(Exception):
    """The job did not come to its end; the text is the diagnosis."""


@dataclass(frozen=True)
class DemoOptions:
    """The command line of `demo`."""

    records: int = 50_000
    bad_permille: int = 10
    rate: float | None = None
    kafka: str = "embedded"
    keep: bool = False
    as_json: bool = False
    sabotage: str | None = None
    seed: int = 7
    stall_s: float = 90.0
    transactions: bool = False
    restart_broker: str | None = None
    """The signal that ends the broker while records flow; it is started again at once."""
    held_back_s: float = struck.HELD_BACK_S
    """How long a run with chaos goes on for what has not struck yet."""
    stack: Options = field(default_factory=Options)


def run(workspace: Workspace, options: DemoOptions, terminal: Terminal) -> int:
    """The whole demo; 0 when all is right."""
    started = time.monotonic()
    with Running(workspace, options.stack, terminal.step) as running:
        terminal.step(f"the stack is up after {time.monotonic() - started:.1f} s; logs in {running.stack.logs}")
        job = Job(running.stack, options, terminal, workspace)
        try:
            result = job.run()
        except DemoFailed as problem:
            terminal.failure(str(problem))
            result = None
        if options.keep:
            running.detach()
            terminal.say(how_to_query(running.stack))
    if result is None:
        return 1
    print(result.summary(), flush=True)
    if options.as_json:
        print(json.dumps(result.as_json()), flush=True)
    return 0 if result.right else 1


@dataclass(frozen=True)
class Result:
    """All that the demo found."""

    figures: dict[str, Any]
    readings: list[Reading]
    problems: list[str]
    remarks: list[str]
    """What to know of a run that is right all the same."""
    produced_kinds: dict[str, int]
    audited: Audited | None = None
    """None where stand-ins take the functions' place: they keep no ledger."""

    @property
    def right(self) -> bool:
        return not self.problems and self._all_stands_once

    @property
    def _all_stands_once(self) -> bool:
        audited = self.audited is None or self.audited.proved
        return audited and all(reading.right for reading in self.readings)

    def worst(self, what: str) -> int:
        return max((reading.total(what) for reading in self.readings), default=0)

    def as_json(self) -> dict[str, Any]:
        worst = {what: self.worst(what) for what in ("missing", "duplicates", "altered", "unexpected")}
        readers = [reading.reader for reading in self.readings]
        return {**self.figures, **worst, "readers": readers, **self._audit_figures(), "ok": self.right}

    def _audit_figures(self) -> dict[str, Any]:
        if self.audited is None:
            return {}
        found = self.audited
        return {
            "audit_proved": found.proved,
            "audited_records": found.records,
            "audit_seconds": round(found.seconds, 2),
            "audit_cpu_seconds": round(found.cpu_seconds, 2),
        }

    def summary(self) -> str:
        shown = {**self.as_json()}
        shown["readers"] = ", ".join(shown["readers"])
        hostile = shown.pop("hostile", {})
        shown |= {f"hostile {part}": _listed(struck) for part, struck in hostile.items()}
        lines = ["", *(f"  {name.replace('_', ' '):32} {_human(value)}" for name, value in shown.items() if name != "ok")]
        for reading in self.readings:
            named = [*reading.row_differences.named, *reading.dead_letter_differences.named]
            lines += [f"  {reading.reader}: {line}" for line in named]
        if self.audited is not None:
            lines += [f"  icefall audit: {line}" for line in [*self.audited.faults, *self.audited.named]]
        lines += [f"  problem: {problem}" for problem in self.problems]
        lines += [f"  remark: {remark}" for remark in self.remarks]
        lines.append("")
        lines.append(f"  {self._verdict()}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        if not self._all_stands_once:
            return "NOT every record stands exactly once: see above"
        return "every record stands exactly once" + (", but not all is as it should be: see above" if self.problems else "")


class Job:
    """Produce, wait, verify; on a stack that is up."""

    def __init__(self, stack: Stack, options: DemoOptions, terminal: Terminal, workspace: Workspace | None = None) -> None:
        self._stack = stack
        self._workspace = workspace or Workspace.here()
        self._options = options
        self._terminal = terminal
        self._watcher = Watcher(stack)
        self._generator = _generator(stack, options)
        self._restart = BrokerRestart(stack, options.restart_broker) if options.restart_broker else None
        self._visible_at = 0.0
        """When a look first showed all that was produced, by the clock of the records' timestamps."""

    def run(self) -> Result:
        started = time.monotonic()
        expectation, view = self._produce_and_wait()
        seconds = time.monotonic() - started
        figures = self._figures(expectation, view, seconds)
        expectation.save(self._stack.folder / "expected.arrow")
        if self._options.sabotage:
            self._spoil(expectation, self._options.sabotage)
        readings = [self._verified(expectation, reader) for reader in READERS]
        audited = self._audited()
        spared = self._never_struck(view)
        demanded, remarks = (spared, []) if self._options.records >= struck.LEAST_RECORDS else ([], spared)
        problems = [*self._key_problems(view), *_not_hostile(view), *demanded]
        return Result(figures, readings, problems, remarks, expectation.kinds(), audited)

    def _produce_and_wait(self) -> tuple[Expectation, View]:
        stop = threading.Event()
        production = _Production(stop)
        production.start(self._generator)
        if self._restart is not None:
            self._restart.start()
        try:
            view = self._wait(self._generator, production)
            self._watcher.stop_chaos()
        finally:
            stop.set()
            production.join()
        return production.expectation(), view

    def _wait(self, generator: AnyGenerator, production: _Production) -> View:
        """Until every record is settled and the queue is empty, or nothing has moved for too long."""
        last, moved_at, calm = self._watcher.look(), time.monotonic(), 0
        produced = -1
        while calm < 2:
            time.sleep(_LOOK_EVERY_S)
            view = self._watcher.look()
            self._show(generator.produced, view)
            self._let_go_once_all_struck(generator.pace, view)
            if view.moved_since(last) or generator.produced != produced or not self._broker_is_back:
                moved_at = time.monotonic()
            last, produced = view, generator.produced
            self._fail_if_dead(view, production)
            if time.monotonic() - moved_at > self._options.stall_s:
                raise DemoFailed(self._diagnosis(view, f"nothing has moved for {self._options.stall_s:.0f} s"))
            visible = production.done and view.settled >= produced
            if visible and not self._visible_at:
                self._visible_at = time.time()
            calm = calm + 1 if visible and self._broker_is_back and view.queue_empty else 0
        self._terminal.end_progress()
        return last

    @property
    def _broker_is_back(self) -> bool:
        return self._restart is None or self._restart.done

    def _let_go_once_all_struck(self, pace: Pace, view: View) -> None:
        if pace.reached.is_set() and not pace.let_go.is_set() and not (_not_hostile(view) or self._never_struck(view)):
            pace.let_go.set()

    def _never_struck(self, view: View) -> list[str]:
        counted = metric_sums(self._stack.logs / "committer.log", _COUNTED)
        missing = struck.never_struck(self._options.stack, view.status["functions"], counted)
        return [f"chaos was asked for, and in a run of {self._options.records:,} records {one}" for one in missing]

    def _show(self, produced: int, view: View) -> None:
        self._terminal.progress(
            f"produced {produced:,} · rows {view.rows:,} · dead letters {view.dead_letters:,} · "
            f"snapshots {view.snapshots} · queue {view.queued}+{view.in_flight}"
        )

    def _fail_if_dead(self, view: View, production: _Production) -> None:
        if production.failure is not None:
            raise DemoFailed(f"producing failed: {production.failure}")
        if self._restart is not None and self._restart.failure is not None:
            raise DemoFailed(self._diagnosis(view, f"the broker's restart failed: {self._restart.failure}"))
        if view.status["dead_parts"]:
            raise DemoFailed(self._diagnosis(view, f"{', '.join(view.status['dead_parts'])} ended by itself"))
        if not view.status["mapping"]["alive"]:
            raise DemoFailed(self._diagnosis(view, "the event source mapping ended by itself"))
        if (queue := view.status["queue_mapping"]) is not None and not queue["alive"]:
            raise DemoFailed(self._diagnosis(view, "the commit queue's event source mapping ended by itself"))

    def _diagnosis(self, view: View, what: str) -> str:
        self._terminal.end_progress()
        lines = [f"{what}: rows {view.rows:,}, dead letters {view.dead_letters:,}, queue {view.queued}+{view.in_flight}"]
        for name, counts in view.status["functions"].items():
            lines.append(f"  {name}: {counts['invocations']} invocations, {counts['errors']} errors, {counts['throttles']} throttled")
            if counts["last_error"]:
                lines.append(f"    last error at {counts['last_error']['time']} UTC: {counts['last_error']['text']}")
        progress = mapping_progress(self._stack.folder)
        lines.append(f"  event source mapping: {progress['batches']} batches, {progress['failures']} failed tries")
        if (queue := view.status["queue_mapping"]) is not None:
            lines.append(f"  the commit queue's: {queue['events']} events, {queue['failures']} failed; {queue['last_error']}")
        lines.append(f"  logs: {self._stack.logs}")
        return "\n".join(lines)

    def _spoil(self, expectation: Expectation, kind: str) -> None:
        victim = sabotage.choose(expectation, kind)
        self._terminal.step(f"sabotage ({kind}) of {victim}")
        sabotage.spoil(self._stack, victim, kind)

    def _verified(self, expectation: Expectation, reader: str) -> Reading:
        started = time.monotonic()
        try:
            reading = verify(self._stack, expectation, reader)
        except Exception as problem:
            raise DemoFailed(f"{reader} could not read the tables: {problem!r}") from problem
        self._terminal.step(
            f"{reader} read {reading.rows:,} rows and {reading.dead_letters:,} dead letters and compared every value "
            f"({time.monotonic() - started:.1f} s)"
        )
        return reading

    def _audited(self) -> Audited | None:
        program = self._workspace.operators_tool(self._options.stack.functions)
        if program is None:
            return None
        try:
            found = audit(self._stack, program, self._options.stack.isolation)
        except AuditFailed as problem:
            raise DemoFailed(f"the topic could not be audited: {problem}") from problem
        self._terminal.step(f"icefall audit held {found.records:,} records of the topic against the ledger ({found.seconds:.1f} s)")
        return found

    def _figures(self, expectation: Expectation, view: View, seconds: float) -> dict[str, Any]:
        self._terminal.step("measuring freshness")
        table = self._watcher.table(TABLE)
        files = table.inspect.files()["file_size_in_bytes"].to_pylist()
        fresh = freshness.measure(table, expectation, self._watcher.commits_answered_ms())
        functions = view.status["functions"]
        cpu = sum(counts["cpu_seconds"] for counts in functions.values())
        progress = mapping_progress(self._stack.folder)
        counted = metric_sums(self._stack.logs / "committer.log", _COUNTED)
        return {
            "produced": expectation.records.num_rows,
            "rows": view.rows,
            "dead_letters": view.dead_letters,
            "conflicts": counted["CommitConflicts"],
            "kills": sum(counts["kills"] for counts in functions.values()),
            "kills_in_flight": sum(counts["kills_in_flight"] for counts in functions.values()),
            "copies_sent": view.status["copies"],
            "duplicates_skipped": counted["DuplicateBatches"],
            "repolls": progress["repolls"],
            "trims": counted["TrimmedBatches"],
            "snapshots": view.snapshots,
            "files": len(files),
            "bytes": sum(files),
            "freshness_p50_ms": fresh.p50_ms,
            "freshness_p99_ms": fresh.p99_ms,
            "quiet_tail_ms": max(0, round(self._visible_at * 1000) - expectation.last_produced_ms()),
            "records_per_cpu_second": round(expectation.records.num_rows / cpu) if cpu else None,
            "writer_cpu_seconds": round(functions["writer"]["cpu_seconds"], 2),
            "committer_cpu_seconds": round(functions["committer"]["cpu_seconds"], 2),
            "writer_peak_rss_mib": round(functions["writer"]["peak_rss_mib"]),
            "committer_peak_rss_mib": round(functions["committer"]["peak_rss_mib"]),
            "batches": progress["batches"],
            "function_errors": sum(counts["errors"] for counts in functions.values()),
            "seconds": round(seconds, 1),
            **self._particulars(progress, view),
            "bad_kinds": len(expectation.kinds()),
            "access_keys": len({key for seen in view.status["keys"].values() for key in seen} - {UNSIGNED}),
        }

    def _particulars(self, progress: dict[str, Any], view: View) -> dict[str, Any]:
        """Figures of what was asked for in particular."""
        figures: dict[str, Any] = {}
        if (queue := view.status["queue_mapping"]) is not None:
            figures |= {f"queue_{name}": queue[name] for name in ("events", "messages", "failures", "kept")}
        if isinstance(self._generator, TransactionalGenerator):
            figures["isolation"] = self._options.stack.isolation
            figures["aborted_records"] = self._generator.aborted
            figures["commits_in_doubt"] = self._generator.in_doubt
        if self._restart is not None and self._restart.result is not None:
            figures["broker_down_s"] = self._restart.result.down_s
            figures["broker_recovery_s"] = self._restart.result.recovery_s
            figures["rewinds"] = progress["rewinds"]
        if view.status["hostile"] is not None:
            figures["hostile"] = view.status["hostile"]
        return figures

    def _key_problems(self, view: View) -> list[str]:
        """Each part must have seen its own key alone, in its own region."""
        problems = []
        for part, seen in view.status["keys"].items():
            service = getattr(self._stack, part)
            own = service.access_key_id or UNSIGNED
            if set(seen) != {own}:
                problems.append(f"the {part} saw the access key ids {seen}, not {own} alone")
            regions = {scope.split("/")[0] for scope in view.status["scopes"][part]}
            if regions - {service.region}:
                problems.append(f"requests to the {part} were signed for {sorted(regions)}, not for {service.region}")
        return problems


def _not_hostile(view: View) -> list[str]:
    """A hostile network that did not do all that it can proves less than it says."""
    missing = hostility.never_struck(view.status["hostile"] or {})
    return [f"the network's hostility never struck as it can (use more records): {one}" for one in missing]


AnyGenerator = Generator | TransactionalGenerator


def _generator(stack: Stack, options: DemoOptions) -> AnyGenerator:
    plan = Plan(
        stack.kafka_bootstrap,
        stack.topic,
        options.stack.partitions,
        options.records,
        options.bad_permille,
        options.seed,
        options.rate,
        expects_aborted=options.stack.isolation == "read_uncommitted",
        held_back=struck.held_back(options.stack, options.records),
        held_back_s=options.held_back_s,
    )
    return TransactionalGenerator(plan) if options.transactions else Generator(plan)


class _Production:
    """The generator in a thread of its own."""

    def __init__(self, stop: threading.Event) -> None:
        self.failure: Exception | None = None
        self._stop = stop
        self._expectation: Expectation | None = None
        self._thread: threading.Thread | None = None

    def start(self, generator: AnyGenerator) -> None:
        self._thread = threading.Thread(target=self._run, args=(generator,), daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        return self._expectation is not None

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join(90)

    def expectation(self) -> Expectation:
        if self._expectation is None:
            raise DemoFailed("producing did not end")
        return self._expectation

    def _run(self, generator: AnyGenerator) -> None:
        try:
            self._expectation = generator.run(self._stop)
        except Exception as problem:
            self.failure = problem


def _listed(struck: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in struck.items())


def _human(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}"

