"""The real parts: how each server is started on given ports and how it says that it is ready.

Everything that is particular to one server's command line stands here, so that another broker or catalog
is one function more. All of them listen on 127.0.0.1 alone and keep their data in the run's folder.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from icefall_local import second_catalog
from icefall_local.credentials import Credentials
from icefall_local.ports import LOOPBACK, Ports
from icefall_local.processes import Part
from icefall_local.workspace import Workspace

TABLE_BUCKET = "lake"
OPS_BUCKET = "icefall-ops"
STORE_ROLE = "arn:aws:iam::000000000000:role/IcefallStore"
"""Lent by the object store's own token service to any key of the run: for the table bucket alone."""
VENDING_ROLE = "arn:aws:iam::000000000000:role/IcefallVending"
"""The catalog narrows it to one table and hands out its keys, when it is asked to."""
READY_SECONDS = 60.0


@dataclass(frozen=True)
class Lakehouse:
    """SeaweedFS: object store and Iceberg REST catalog of one process."""

    part: Part
    s3_port: int
    catalog_port: int


def start_lakehouse(
    workspace: Workspace, run: Path, ports: Ports, credentials: Credentials, *, lends_keys: bool
) -> Lakehouse:
    """Starts SeaweedFS with both buckets and with identities that can do their own part's work only.

    A catalog that lends keys for tables also says where the store is, and clients go there past the proxy that
    notes whose key they use: so it lends some only where that is what is tried.
    """
    data, logs = run / "seaweedfs", run / "log" / "seaweedfs"
    identities, roles = run / "identities.json", run / "roles.json"
    data.mkdir()
    logs.mkdir()
    identities.write_text(json.dumps(_identities(credentials), indent=1))
    roles.write_text(json.dumps(_roles(), indent=1))
    s3_port, catalog_port = ports.free(), ports.free()
    command = [
        workspace.program("weed"), f"-logdir={logs}", "mini", f"-dir={data}", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}",
        f"-master.port={ports.free()}", f"-volume.port={ports.free()}", f"-filer.port={ports.free()}",
        f"-s3.port={s3_port}", f"-s3.port.iceberg={catalog_port}", "-s3.port.lance=0", f"-s3.config={identities}",
        *([f"-s3.iam.config={roles}", f"-s3.iceberg.credentialRole={VENDING_ROLE}"] if lends_keys else []),
        f"-admin.port={ports.free()}", "-admin.ui=false", "-webdav=false", "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64", "-volume.preStopSeconds=0", "-s3.autoCreateBucket=false",
        f"-tableBucket={TABLE_BUCKET}", f"-bucket={OPS_BUCKET},{second_catalog.BUCKET}",
    ]  # fmt: skip
    log = run / "log" / "seaweedfs.log"
    part = Part.start("SeaweedFS", command, log, {"GOMEMLIMIT": "1500MiB"})
    part.wait_until(lambda: b"All enabled components are running" in log.read_bytes(), READY_SECONDS)
    return Lakehouse(part, s3_port, catalog_port)


def _identities(credentials: Credentials) -> dict[str, object]:
    """The catalog's key may not touch objects, the store's may not touch the catalog nor the ops bucket."""
    allowed = {
        "catalog": (credentials.catalog, ["s3tables:*"]),
        "store": (credentials.store, _may_use(TABLE_BUCKET, second_catalog.BUCKET)),
        "ops": (credentials.ops, _may_use(OPS_BUCKET)),
        "second catalog": (credentials.second_catalog, _may_use(second_catalog.BUCKET)),
        "reader": (credentials.reader, ["Admin", "Read", "Write", "List", "Tagging"]),
    }
    return {
        "identities": [
            {
                "name": name,
                "credentials": [{"accessKey": key.access_key_id, "secretKey": key.secret_access_key}],
                "actions": actions,
            }
            for name, (key, actions) in allowed.items()
        ]
    }


def _may_use(*buckets: str) -> list[str]:
    return [f"{verb}:{bucket}" for bucket in buckets for verb in ("Read", "Write", "List")]


def _roles() -> dict[str, object]:
    """What may be assumed, and by whom; sessions are signed with a key of this run alone."""
    bucket = f"arn:aws:s3:::{TABLE_BUCKET}"
    statement = {"Effect": "Allow", "Action": ["s3:*"], "Resource": [bucket, f"{bucket}/*"]}

    def role(arn: str, principal: dict[str, str], action: str) -> dict[str, object]:
        trust = {"Effect": "Allow", "Principal": principal, "Action": [action]}
        return {
            "roleName": arn.rpartition("/")[2],
            "roleArn": arn,
            "trustPolicy": {"Version": "2012-10-17", "Statement": [trust]},
            "attachedPolicies": ["tables"],
        }

    return {
        "sts": {
            "tokenDuration": "1h",
            "maxSessionLength": "12h",
            "issuer": "icefall-local",
            "signingKey": base64.b64encode(secrets.token_bytes(32)).decode(),
        },
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "policies": [{"name": "tables", "document": {"Version": "2012-10-17", "Statement": [statement]}}],
        "roles": [
            role(STORE_ROLE, {"AWS": "*"}, "sts:AssumeRole"),
            role(VENDING_ROLE, {"Federated": "iceberg-catalog"}, "sts:AssumeRoleWithCredentials"),
        ],
    }


def start_queue_server(workspace: Workspace, run: Path, ports: Ports) -> tuple[Part, int]:
    """Starts ministack for SQS, and for what keeps secrets; it accepts any credentials and keeps all per region."""
    port, scratch = ports.free(), run / "queue"
    scratch.mkdir()
    environment = {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": LOOPBACK,
        "SERVICES": "sqs,secretsmanager,ssm",
        "LOG_LEVEL": "WARNING",
        "TMPDIR": str(scratch),
    }
    command = [workspace.queue_python(), "-m", "ministack"]
    part = Part.start("the SQS server", command, run / "log" / "queue.log", environment)
    part.wait_until(lambda: accepts(LOOPBACK, port), READY_SECONDS)
    return part, port


def start_broker(workspace: Workspace, run: Path, ports: Ports) -> tuple[Part, int]:
    """Starts the embedded Kafka broker: the binary itself, since its wrapper would outlive being told to end."""
    port, program = ports.free(), workspace.packaged("noida_db", "noida-db")
    if not os.access(program, os.X_OK):
        program.chmod(0o755)  # As its wrapper does: the wheel doesn't mark it as a program.
    command = [
        program, "start", "--data-dir", run / "kafka", "--host", LOOPBACK,
        "--only", "kafka", "--kafka-port", str(port),
    ]  # fmt: skip
    part = Part.start("the Kafka broker", command, run / "log" / "kafka.log", {})
    part.wait_until(lambda: accepts(LOOPBACK, port), READY_SECONDS)
    return part, port


def accepts(host: str, port: int) -> bool:
    """Whether something accepts connections there."""
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True
