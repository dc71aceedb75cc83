"""The second catalog: Apache Iceberg's own REST catalog, on an ordinary bucket of the same object store.

What holds on one catalog may rest on that catalog's habits, so every promise is tried on another one too.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
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
    """Starts it twice, each with a database of its own; returns when both answer. The second one fails now and then."""
    databases = {name: run / f"{name}.sqlite" for name in ("second-catalog", "failing-catalog")}
    started = {name: _start(java, run, ports, name, _properties(file, s3_endpoint, key)) for name, file in databases.items()}
    _fail_now_and_then(databases["failing-catalog"])
    uris = {name: f"http://{LOOPBACK}:{port}" for name, (_, port) in started.items()}
    described = SecondCatalog(uris["second-catalog"], uris["failing-catalog"], f"s3://{BUCKET}", BUCKET)
    return [part for part, _ in started.values()], described


def start_alone(java: Java, run: Path, ports: Ports, s3_endpoint: str, key: KeyPair) -> tuple[Part, int]:
    """Starts it once, for a run that has no other catalog; the port that it answers at."""
    return _start(java, run, ports, "iceberg-catalog", _properties(run / "iceberg-catalog.sqlite", s3_endpoint, key))


def _fail_now_and_then(database: Path) -> None:
    """From now on each third change of a table ends as a failure of the server's, and has been made.

    `RAISE(FAIL)` ends a statement with an error and takes nothing back of what it did (SQLite, CREATE TRIGGER, "The
    RAISE() function"), so that the server's commit is in the database when its own question for it fails.
    """
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.executescript(
            """
            CREATE TABLE changes (number INTEGER NOT NULL);
            INSERT INTO changes VALUES (0);
            CREATE TRIGGER made_and_not_answered AFTER UPDATE ON iceberg_tables BEGIN
                UPDATE changes SET number = number + 1;
                SELECT RAISE(FAIL, 'the answer is lost') FROM changes WHERE number % 3 = 2;
            END;
            """
        )


def _start(java: Java, run: Path, ports: Ports, name: str, properties: str) -> tuple[Part, int]:
    port, described, log = ports.free(), run / f"{name}.properties", run / "log" / f"{name}.log"
    described.touch(mode=0o600)
    described.write_text(properties)
    part = Part.start(f"the {name.replace('-', ' ')}", java.command(_MAIN, str(port), described), log, {})
    part.wait_until(lambda: b"ready\n" in log.read_bytes(), _READY_SECONDS)
    return part, port


def _properties(database: Path, s3_endpoint: str, key: KeyPair) -> str:
    properties = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{database}",
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
