"""`stack.json`: what is up, where, and with which keys. The contract between the run and all who use it.

The supervisor writes it once everything answers; the demo, the tests (`ICEFALL_STACK` names the file) and
`down` read it. Each part has two endpoints: `endpoint` goes through the proxy that notes access key ids and
is meant for the functions; `direct_endpoint` is the part itself, for readers and tests.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icefall_local.credentials import KeyPair


@dataclass(frozen=True)
class Service:
    """One AWS-like part and the keys for it."""

    endpoint: str
    direct_endpoint: str
    region: str
    access_key_id: str
    secret_access_key: str

    @classmethod
    def of(cls, endpoint: str, direct: str, region: str, key: KeyPair) -> Service:
        return cls(endpoint, direct, region, key.access_key_id, key.secret_access_key)


@dataclass(frozen=True)
class SecondCatalog:
    """Apache Iceberg's own REST catalog; it asks nobody for a signature."""

    uri: str
    failing_uri: str
    """The same program, set up so that it fails now and then after it did what it was asked for."""
    warehouse: str
    """As a reader is told; the catalog ignores it."""
    bucket: str
    """The ordinary bucket that its tables lie in."""


@dataclass(frozen=True)
class Stack:
    """A stack that is up."""

    run: str
    """The run's folder; logs are in `log/` below it."""
    supervisor_pid: int
    warehouse: str
    """As the catalog takes it: `s3://BUCKET`."""
    table_bucket: str
    ops_bucket: str
    queue_url: str
    """As the functions are told, through the proxy."""
    direct_queue_url: str
    catalog: Service
    store: Service
    ops: Service
    queue: Service
    reader: KeyPair
    """May do everything in catalog and object store; what PyIceberg, DuckDB and the tests use."""
    kafka_bootstrap: str
    kafka_cluster: str
    topic: str
    """The topic of the main job."""
    lambda_endpoint: str
    """The Invoke API, and the run's own questions and orders below `/local/`."""
    settings: str
    """The functions' settings file."""
    second_catalog: SecondCatalog | None = None
    """Up only when it was asked for: it needs Java."""
    signed: bool = True
    """Whether the catalog wants its requests signed."""

    def write(self, path: Path) -> None:
        """All at once: a reader sees the whole file or none. It holds keys, so only its owner can read it."""
        scratch = path.with_suffix(".new")
        scratch.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        scratch.chmod(0o600)
        os.replace(scratch, path)

    @classmethod
    def read(cls, path: Path) -> Stack:
        fields: dict[str, Any] = json.loads(path.read_text())
        for name in ("catalog", "store", "ops", "queue"):
            fields[name] = Service(**fields[name])
        fields["reader"] = KeyPair(**fields["reader"])
        if fields["second_catalog"] is not None:
            fields["second_catalog"] = SecondCatalog(**fields["second_catalog"])
        return cls(**fields)

    def on_second_catalog(self) -> Stack:
        """The same stack with the second catalog in the place of the first."""
        second = self.second_catalog
        if second is None:
            raise ValueError("the second catalog is not up: start through `cargo xtask test --all`")
        catalog = Service(second.uri, second.uri, "", "", "")
        return dataclasses.replace(
            self, catalog=catalog, warehouse=second.warehouse, table_bucket=second.bucket, signed=False
        )

    @property
    def folder(self) -> Path:
        return Path(self.run)

    @property
    def logs(self) -> Path:
        return self.folder / "log"
