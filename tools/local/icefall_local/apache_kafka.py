"""Apache Kafka as the run's broker: one node in KRaft mode, run by the machine's Java, all on loopback.

It is what users have, and the only broker here that sends aborted records and leaves them to the client,
comes back after SIGKILL with all that it acknowledged, and counts transaction markers as offsets. Its data
lie in the run's folder, formatted anew for each run.
"""

from __future__ import annotations

import asyncio
import base64
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from icefall_local.http1 import Request, Response
from icefall_local.ports import LOOPBACK, Ports
from icefall_local.processes import Part, PartFailed
from icefall_local.workspace import Workspace

READY_SECONDS = 180.0
_STOP_SECONDS = 30.0
_JVM = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A run is short: what the optimising compiler costs in the first minute it never gives back."""


class Security(Protocol):
    """What a broker needs besides to let in only whom it knows."""

    def added_to(self, properties: str) -> str:
        """The broker's settings with those of its other listener."""

    def users(self) -> list[str]:
        """Arguments of the formatting that make users known."""


class ApacheKafka:
    """A broker and its data; it can be started again on both. `security` adds a listener that asks who is there."""

    def __init__(self, workspace: Workspace, run: Path, ports: Ports, security: Security | None = None) -> None:
        self.part: Part | None = None
        """The process; None while it is meant to be down."""
        self._run = run
        port, controller_port = ports.free(), ports.free()
        self.bootstrap = f"{LOOPBACK}:{port}"
        self._java = [
            workspace.java(), *_JVM, "-cp", f"{workspace.kafka_jars()}/*",
            f"-Dlog4j2.configurationFile={workspace.repository / 'tools' / 'local' / 'kafka' / 'log4j2.properties'}",
        ]  # fmt: skip
        self._properties = run / "kafka.properties"
        text = properties(port, controller_port, run / "kafka")
        self._properties.write_text(text if security is None else security.added_to(text))
        self._users = [] if security is None else security.users()
        self._starts = 0

    def start(self) -> None:
        """Starts the broker on an empty data folder; returns when it answers."""
        self._format()
        self.part = self._launch()
        self._wait(self.part)

    async def restart(self, number: signal.Signals) -> float:
        """Ends the broker by a signal and starts it again; the seconds from the signal until it answers."""
        before, began = self.part, time.monotonic()
        if before is None:
            raise PartFailed("Apache Kafka is being restarted already")
        self.part = None
        before.process.send_signal(number)
        try:
            await asyncio.to_thread(before.process.wait, _STOP_SECONDS)
        finally:
            before.stop(0.0)
        # From the loop's own thread: on Linux a child lives as long as the thread that started it.
        after = self._launch()
        try:
            await asyncio.to_thread(self._wait, after)
        except BaseException:
            after.stop()
            raise
        self.part = after
        return time.monotonic() - began

    def _format(self) -> None:
        """Makes the data folder that of a new cluster with this one node."""
        tool = [*self._java, "kafka.tools.StorageTool", "format", "--standalone"]
        command = [*tool, "-t", _cluster_id(), "-c", self._properties, *self._users]
        part = Part.start("formatting Apache Kafka's data folder", command, self._run / "log" / "kafka-format.log", {})
        try:
            if part.process.wait(READY_SECONDS):
                raise part.failed(f"ended with {part.process.returncode}")
        except subprocess.TimeoutExpired as problem:
            raise part.failed(f"took longer than {READY_SECONDS:.0f} s") from problem
        finally:
            part.stop()

    def _launch(self) -> Part:
        """Each life has a log of its own."""
        self._starts += 1
        log = "kafka.log" if self._starts == 1 else f"kafka-{self._starts}.log"
        return Part.start("Apache Kafka", [*self._java, "kafka.Kafka", self._properties], self._run / "log" / log, {})

    def _wait(self, part: Part) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200})
        part.wait_until(lambda: _leads(admin), READY_SECONDS)


async def restarted(broker: ApacheKafka | None, request: Request) -> Response:
    """Answers the order `{"signal": "SIGTERM" | "SIGKILL"}`, once the broker is back."""
    if broker is None:
        return Response.of_json({"message": "no Apache Kafka here: start the stack with --kafka apache"}, 400)
    try:
        return Response.of_json({"down_s": await broker.restart(signal.Signals[request.json()["signal"]])})
    except (PartFailed, subprocess.TimeoutExpired) as problem:
        return Response.of_json({"message": f"Apache Kafka did not come back: {problem}"}, 500)


def properties(port: int, controller_port: int, data: Path) -> str:
    """The broker's settings. What is internal is replicated once, since there is one node."""
    return f"""process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}
advertised.listeners=PLAINTEXT://{LOOPBACK}:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={LOOPBACK}:{controller_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def _cluster_id() -> str:
    """An id as Kafka writes it: base64 of a UUID. One that begins like an option is drawn again."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _leads(admin: AdminClient) -> bool:
    """Whether it answers, and each partition that it holds has a leader."""
    try:
        topics = admin.list_topics(timeout=1.0).topics.values()
    except KafkaException:
        return False
    return all(partition.leader >= 0 for topic in topics for partition in topic.partitions.values())
