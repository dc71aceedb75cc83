"""Finds out which isolation level the event source mapping of an account really has.

AWS does not document whether Lambda's Kafka pollers read committed or uncommitted. This produces three records
to a topic that a mapping polls: one in a transaction that is committed, one in a transaction that is aborted
after the broker has it, and one more that is committed. When the last has arrived, the second either has too,
or never will.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

OUTCOMES = ("committed", "aborted", "committed")
_PATIENCE_S = 60.0


class ProbeFailed(Exception):
    """The broker did not take the records, so whatever arrives says nothing."""


def produce(client: dict[str, str], topic: str, partition: int, probe: str) -> list[int]:
    """The three records' offsets. Their values are JSON that names the probe and the outcome."""
    producer = Producer({**client, "transactional.id": f"icefall-probe-{probe}"})
    producer.init_transactions(_PATIENCE_S)
    offsets: list[int] = []
    errors: list[str] = []

    def note(error: KafkaError | None, message: Message) -> None:
        offsets.append(message.offset() or 0) if error is None else errors.append(str(error))

    for number, outcome in enumerate(OUTCOMES, 1):
        value = json.dumps({"probe": probe, "number": number, "outcome": outcome}).encode()
        producer.begin_transaction()
        producer.produce(topic, value, partition=partition, on_delivery=note)
        # Before an abort too: what was not sent yet would be dropped by the client, and the abort prove nothing.
        if producer.flush(_PATIENCE_S) or errors:
            raise ProbeFailed(f"record {number} was not taken by the broker: {errors or 'no answer in time'}")
        if outcome == "committed":
            producer.commit_transaction(_PATIENCE_S)
        else:
            producer.abort_transaction(_PATIENCE_S)
    return offsets


def settings(text: str) -> dict[str, str]:
    """Of a properties file: a password is no argument of a command, where every user of the machine could read it."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def explained(topic: str, partition: int, probe: str, offsets: Sequence[int]) -> str:
    """What to look for, and what it means."""
    placed = "\n".join(
        f"  {topic}/{partition}/{offset}  {outcome}" for offset, outcome in zip(offsets, OUTCOMES, strict=True)
    )
    return f"""Produced, as probe {probe}:
{placed}
Look at what the function was delivered: in Icefall's dead-letter table if the topic is routed to a table that
these records don't fit,
  SELECT "offset", CAST(value AS varchar) FROM icefall.dead_letters WHERE topic = '{topic}' AND "offset" >= {offsets[0]}
or in the log of any function that prints its event.
  {offsets[0]} and {offsets[2]} have arrived, {offsets[1]} has not: the mapping reads committed.
  all three have arrived: it reads uncommitted, and records of aborted transactions become rows.
  {offsets[2]} has not arrived: nothing is known yet."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m icefall_local.isolation_probe", description=__doc__)
    parser.add_argument("bootstrap", metavar="HOST:PORT", help="the cluster's bootstrap servers")
    parser.add_argument("topic", help="a topic that the event source mapping polls")
    parser.add_argument("--partition", type=int, default=0)
    parser.add_argument("--client", type=Path, metavar="FILE", help="settings of librdkafka, NAME=VALUE a line")
    options = parser.parse_args(arguments)
    client = {**(settings(options.client.read_text()) if options.client else {}), "bootstrap.servers": options.bootstrap}
    probe = uuid.uuid4().hex[:12]
    print(explained(options.topic, options.partition, probe, produce(client, options.topic, options.partition, probe)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
