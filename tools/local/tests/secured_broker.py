"""Apache Kafka as clusters outside of a test are: behind TLS, with users that sign in by password.

Its certificate is one of the machine's own making, which a client trusts only if it is told to.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from icefall_local.apache_kafka import ApacheKafka
from icefall_local.generator import create_topic, end_offsets
from icefall_local.ports import LOOPBACK, Ports
from icefall_local.workspace import Workspace

USER, PASSWORD = "alice", "through the looking-glass"
MECHANISMS = ("scram-sha-256", "scram-sha-512", "plain")
_STORE_PASSWORD = "changeit"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'


@dataclass(frozen=True)
class Passwords:
    """A listener for TLS and passwords, beside the open one."""

    port: int
    key_store: Path

    def added_to(self, properties: str) -> str:
        listener = f"SASL_SSL://{LOOPBACK}:{self.port}"
        lines = [
            f"{line},{listener}" if line.startswith(("listeners=", "advertised.listeners=")) else line
            for line in properties.splitlines()
        ]
        protocols = "listener.security.protocol.map="
        lines = [f"{line},SASL_SSL:SASL_SSL" if line.startswith(protocols) else line for line in lines]
        lines += [
            "ssl.keystore.type=PKCS12",
            f"ssl.keystore.location={self.key_store}",
            f"ssl.keystore.password={_STORE_PASSWORD}",
            f"sasl.enabled.mechanisms={','.join(mechanism.upper() for mechanism in MECHANISMS)}",
        ]
        modules = {mechanism: _PLAIN if mechanism == "plain" else _SCRAM for mechanism in MECHANISMS}
        lines += [f"listener.name.sasl_ssl.{mechanism}.sasl.jaas.config={module}" for mechanism, module in modules.items()]
        return "\n".join(lines) + "\n"

    def users(self) -> list[str]:
        scram = [mechanism.upper() for mechanism in MECHANISMS if mechanism != "plain"]
        return [word for name in scram for word in ("--add-scram", f"{name}=[name={USER},password={PASSWORD}]")]


class SecuredBroker:
    """The broker, and what a client has to trust. It has to be stopped."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self.certificate = folder / "certificate.pem"
        key_tool, key_store = workspace.java().with_name("keytool"), folder / "broker.p12"
        store = ["-keystore", key_store, "-storetype", "PKCS12", "-storepass", _STORE_PASSWORD, "-alias", "broker"]
        pair = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-ext", f"san=ip:{LOOPBACK}", "-validity", "2"]
        subprocess.run([key_tool, *pair, *store], check=True, capture_output=True)
        subprocess.run([key_tool, "-exportcert", "-rfc", "-file", self.certificate, *store], check=True, capture_output=True)
        (folder / "log").mkdir()
        ports = Ports()
        port = ports.free()
        self._broker = ApacheKafka(workspace, folder, ports, Passwords(port, key_store))
        self.open = self._broker.bootstrap
        self.secured = f"{LOOPBACK}:{port}"
        self._broker.start()

    def stop(self) -> None:
        if self._broker.part is not None:
            self._broker.part.stop()

    def copy(self, bootstrap: str, topic: str, partitions: int) -> None:
        """Every record of a topic of another broker, at the same offset."""
        create_topic(self.open, topic, partitions)
        left = sum(end_offsets(bootstrap, topic, partitions))
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "copy", "auto.offset.reset": "earliest"})
        producer = Producer({"bootstrap.servers": self.open, "enable.idempotence": True})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        while left:
            for message in consumer.consume(left, timeout=10.0):
                assert message.error() is None, message.error()
                place = {"partition": message.partition(), "timestamp": message.timestamp()[1]}
                producer.produce(topic, message.value(), message.key(), headers=message.headers(), **place)
                left -= 1
        assert producer.flush(30) == 0
        consumer.close()
