"""The second catalog: Apache Iceberg's own REST catalog, on an ordinary bucket of the same object store.

What holds on one catalog may rest on that catalog's habits, so every promise is tried on another one too.
"""

from __future__ import annotations

from pathlib import Path

from icefall_local.credentials import KeyPair
from icefall_local.java import Java
from icefall_local.ports import LOOPBACK, Ports
from icefall_local.processes import Part
from icefall_local.stack import SecondCatalog

BUCKET = "plain-lake"
_MAIN = "org.apache.iceberg.rest.CatalogServer"
_READY_SECONDS = 60.0


def start(java: Java, run: Path, ports: Ports, s3_endpoint: str, key: KeyPair) -> tuple[list[Part], SecondCatalog]:
    """Starts it twice; returns when both answer.

    One has its tables in a file. The other has them in memory, where each of its two connections has a database of
    its own: a request that finds the first connection at work ends as a failure of the server's, and if that was the
    request's last question, what it asked for has been done all the same.
    """
    in_file = f"jdbc:sqlite:{run / 'second-catalog.sqlite'}"
    databases = {"second-catalog": in_file, "failing-catalog": "jdbc:sqlite::memory:"}
    started = {name: _start(java, run, ports, name, _properties(url, s3_endpoint, key)) for name, url in databases.items()}
    uris = {name: f"http://{LOOPBACK}:{port}" for name, (_, port) in started.items()}
    described = SecondCatalog(uris["second-catalog"], uris["failing-catalog"], f"s3://{BUCKET}", BUCKET)
    return [part for part, _ in started.values()], described


def _start(java: Java, run: Path, ports: Ports, name: str, properties: str) -> tuple[Part, int]:
    port, described, log = ports.free(), run / f"{name}.properties", run / "log" / f"{name}.log"
    described.touch(mode=0o600)
    described.write_text(properties)
    part = Part.start(f"the {name.replace('-', ' ')}", java.command(_MAIN, str(port), described), log, {})
    part.wait_until(lambda: b"ready\n" in log.read_bytes(), _READY_SECONDS)
    return part, port


def _properties(database: str, s3_endpoint: str, key: KeyPair) -> str:
    properties = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": database,
        "clients": "2",
        "jdbc.schema-version": "V1",
        "jdbc.strict-mode": "true",
        "warehouse": f"s3://{BUCKET}/warehouse",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "http-client.type": "apache",
        "client.region": "us-east-1",
        "s3.endpoint": s3_endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": key.access_key_id,
        "s3.secret-access-key": key.secret_access_key,
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())
