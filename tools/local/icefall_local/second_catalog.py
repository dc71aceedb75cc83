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


def start(java: Java, run: Path, ports: Ports, s3_endpoint: str, key: KeyPair) -> tuple[Part, SecondCatalog]:
    """Starts it on an SQLite file; answers when it does."""
    port, described, log = ports.free(), run / "second-catalog.properties", run / "log" / "second-catalog.log"
    described.touch(mode=0o600)
    described.write_text(_properties(f"jdbc:sqlite:{run / 'second-catalog.sqlite'}", s3_endpoint, key))
    part = Part.start("the second catalog", java.command(_MAIN, str(port), described), log, {})
    part.wait_until(lambda: b"ready\n" in log.read_bytes(), _READY_SECONDS)
    return part, SecondCatalog(uri=f"http://{LOOPBACK}:{port}", warehouse=f"s3://{BUCKET}", bucket=BUCKET)


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
