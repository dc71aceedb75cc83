"""The command line behind `cargo xtask`: up, down, demo, test."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from icefall_local.struck import LEAST_RECORDS
from icefall_local.trigger import TRIGGERS
from icefall_local.workspace import Unusable, Workspace


def main(arguments: Sequence[str]) -> int:
    """Runs one command; its exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    options, rest = _parser().parse_known_args(arguments)
    if rest and options.command != "test":
        _parser().error(f"unknown arguments: {' '.join(rest)}")
    if options.command == "demo":
        _refuse_what_the_broker_cannot(options)
        _refuse_what_the_trigger_cannot(options)
    try:
        return _run(options, rest)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except Unusable as problem:
        print(f"\nfailed: {problem}", file=sys.stderr)
        return 1


def _refuse_what_the_broker_cannot(options: argparse.Namespace) -> None:
    if options.restart_broker and options.kafka != "apache":
        _parser().error("--restart-broker needs --kafka apache: the embedded broker loses records when it is killed")
    if options.transactions and options.kafka == "embedded":
        _parser().error("--transactions needs --kafka apache or HOST:PORT: the embedded broker doesn't lead past aborted records")


def _refuse_what_the_trigger_cannot(options: argparse.Namespace) -> None:
    if options.trigger == "queue" and options.committers == 1:
        _parser().error("--trigger queue needs --committers 2 or more: it is the mapping's maximum concurrency, which Lambda has at 2 at least")


def _terminated(*_: object) -> NoReturn:
    """SIGTERM ends the command as Ctrl-C does, so that what it started is stopped."""
    raise KeyboardInterrupt


def _run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    # Imported late: `down` must work, and `--help` be quick, whatever the clients' state.
    from icefall_local import commands

    workspace = Workspace.here()
    match options.command:
        case "up":
            return commands.up(workspace, options)
        case "down":
            return commands.down(workspace)
        case "demo":
            return commands.demo(workspace, options)
        case _:
            return commands.test(workspace, options, rest)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cargo xtask", description="Icefall's local run.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start the stack with the main job on it and leave it up")
    _add_kafka(up)
    _add_catalog(up)
    _add_isolation(up)
    _add_trigger(up)
    commands.add_parser("down", help="stop the stack that is up")
    demo = commands.add_parser("demo", help="the main job, end to end, verified by two readers")
    _add_kafka(demo)
    _add_catalog(demo)
    _add_isolation(demo)
    _add_trigger(demo)
    demo.add_argument("--records", type=_positive, default=50_000, metavar="N", help="records to produce (50000)")
    demo.add_argument("--bad", type=_permille, default=10, metavar="PERMILLE", help="bad ones per thousand (10)")
    demo.add_argument("--rate", type=float, metavar="R", help="records per second; as fast as possible without (2500 with --hostile)")
    demo.add_argument("--keep", action="store_true", help="leave the stack up and say how to query it")
    demo.add_argument("--json", action="store_true", help="print the figures as one JSON object, as the last line")
    demo.add_argument(
        "--sabotage",
        choices=("drop", "double", "alter", "lose-dead-letter"),
        help="spoil one record behind the committer's back: the demo must then fail and name it",
    )
    demo.add_argument(
        "--transactions",
        action="store_true",
        help="produce in transactions, every fourth of them aborted (not on the embedded broker)",
    )
    demo.add_argument(
        "--restart-broker",
        choices=("SIGTERM", "SIGKILL"),
        nargs="?",
        const="SIGKILL",
        help="end the broker by this signal while records flow, and start it again (SIGKILL; needs --kafka apache)",
    )
    demo.add_argument("--seed", type=int, default=7, help="of the generated records and of the chaos (7)")
    stalls = f"{TRIGGERS['schedule'].stall_s:.0f}; {TRIGGERS['queue'].stall_s:.0f} with --trigger queue"
    demo.add_argument("--stall", type=float, metavar="SECONDS", help=f"give up when nothing moves ({stalls})")
    _add_chaos(demo)
    test = commands.add_parser("test", help="every test, on a stack of its own")
    _add_kafka(test)
    test.add_argument("--all", action="store_true", help="also those that take long or need Java or OpenSSL")
    test.add_argument("--builds", action="store_true", help="only the release builds by SAM and cargo-lambda")
    return parser


def _add_kafka(parser: argparse.ArgumentParser) -> None:
    named = "embedded|apache|HOST:PORT"
    parser.add_argument("--kafka", default="embedded", metavar=named, help="the broker (embedded; apache needs Java and Maven)")


def _add_catalog(parser: argparse.ArgumentParser) -> None:
    catalogs = ("seaweedfs", "iceberg")
    told = "whose Iceberg catalog (seaweedfs; iceberg, Apache Iceberg's own, needs Java and Maven)"
    parser.add_argument("--catalog", choices=catalogs, default=catalogs[0], help=told)


def _add_isolation(parser: argparse.ArgumentParser) -> None:
    levels = ("read_committed", "read_uncommitted")
    parser.add_argument("--isolation", choices=levels, default=levels[0], help="of the event source mapping (read_committed)")


def _add_trigger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trigger",
        choices=tuple(TRIGGERS),
        default="schedule",
        help="what invokes the committer: a schedule, or an event source mapping of the commit queue (schedule)",
    )


def _add_chaos(demo: argparse.ArgumentParser) -> None:
    chaos = demo.add_argument_group(
        "chaos",
        "With either of the kills, or with --duplicates, messages of the commit queue are delivered twice, and batches come again with "
        "other boundaries and other partitions beside each other. Every record must still stand exactly once, and from "
        f"{LEAST_RECORDS} records on, all that is asked for must strike: the last records come slowly, until it has.",
    )
    chaos.add_argument(
        "--committers", type=_positive, metavar="N", help="committers that may run at once (1; 2 with --trigger queue)"
    )
    chaos.add_argument("--kill-writers", action="store_true", help="kill -9 of a writer every few seconds, mostly at work")
    chaos.add_argument("--kill-committers", action="store_true", help="the same of a committer")
    chaos.add_argument("--duplicates", action="store_true", help="the duplicates alone: nothing dies")
    chaos.add_argument(
        "--hostile",
        type=int,
        nargs="?",
        const=7,
        metavar="SEED",
        help="before catalog, store, ops bucket and queue the network lies: answers are lost, late, empty, of somebody else, "
        "or errors, and requests arrive twice (7)",
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _permille(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 1_000:
        raise argparse.ArgumentTypeError("must be between 0 and 1000")
    return number
