"""The second catalog: Apache Iceberg's own REST catalog, on an ordinary bucket of the same object store.

What holds on one catalog may rest on that catalog's habits, so every promise is tried on another one too. It is
started twice: once as one would run it, on an SQLite file, and once on SQLite in memory with two connections, each
of which is a database of its own that lacks the other's tables. That odd one answers 500 whenever a request meets
the wrong connection, after a commit that has landed too: a real server's unknown outcome.
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
    """Starts both servers; answers when both do."""
    databases = {"second-catalog": f"jdbc:sqlite:{run / 'second-catalog.sqlite'}", "split-catalog": "jdbc:sqlite::memory:"}
    parts, uris = [], []
    for name, database in databases.items():
        port, described = ports.free(), run / f"{name}.properties"
        described.touch(mode=0o600)
        described.write_text(_properties(database, s3_endpoint, key))
        uris.append(f"http://{LOOPBACK}:{port}")
        parts.append(Part.start(f"the {name}", java.command(_MAIN, str(port), described), run / "log" / f"{name}.log", {}))
    for part in parts:
        part.wait_until(lambda log=part.log: b"ready\n" in log.read_bytes(), _READY_SECONDS)
    return parts, SecondCatalog(uri=uris[0], split_uri=uris[1], warehouse=f"s3://{BUCKET}", bucket=BUCKET)


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
