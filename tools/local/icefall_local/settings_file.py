"""Writes the functions' settings file for a stack.

Every part gets its own endpoint, region and keys, through the proxies: nothing is left to the environment.
The table is the field's usual example, declared with its columns so that the committer creates it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from icefall_local import clickstream
from icefall_local.clickstream import Tables
from icefall_local.stack import Service, Stack

_SERVICE = """endpoint = "{endpoint}"
region = "{region}"
{extra}credentials = {{ access_key_id = "{key}", secret_access_key = "{secret}" }}
"""


@dataclass(frozen=True)
class Pipeline:
    """What a settings file says besides where the parts are."""

    name: str = "demo"
    commit_interval: str = "2s"
    linger: str = "2s"
    hold: str = "5s"
    tables: Tables = field(default_factory=Tables)
    partition_by: tuple[str, ...] = ("hour(event_time)",)
    table_properties: Mapping[str, str] = field(default_factory=dict)
    ops_prefix: str = ""


def render(stack: Stack, pipeline: Pipeline = Pipeline()) -> str:
    """The whole file as TOML."""
    return f"""# Written for one run; the next run writes its own.
pipeline = "{pipeline.name}"

[kafka]
cluster = "{stack.kafka_cluster}"

[catalog]
uri = "{stack.catalog.endpoint}"
warehouse = "{stack.warehouse}"
{_sign_in(stack)}
[store]
{_service(stack.store, "path_style = true")}
[ops]
bucket = "{stack.ops_bucket}"
{_prefix(pipeline)}{_service(stack.ops, "path_style = true")}
[queue]
url = "{stack.queue_url}"
{_service(stack.queue, "")}
[committer]
commit_interval = "{pipeline.commit_interval}"
linger = "{pipeline.linger}"
hold = "{pipeline.hold}"

[dead_letters]
table = "{pipeline.tables.dead_letters}"

{_table(pipeline)}
[[route]]
topic = "{stack.topic}"
table = "{pipeline.tables.rows}"
"""


def _prefix(pipeline: Pipeline) -> str:
    return f'prefix = "{pipeline.ops_prefix}"\n' if pipeline.ops_prefix else ""


def _service(service: Service, extra: str) -> str:
    return _SERVICE.format(
        endpoint=service.endpoint,
        region=service.region,
        extra=extra + "\n" if extra else "",
        key=service.access_key_id,
        secret=service.secret_access_key,
    )


def _sign_in(stack: Stack) -> str:
    """To the catalog; Apache Iceberg's own asks nobody for a signature."""
    if not stack.signed:
        return ""
    sign = f'sign = {{ name = "s3tables", region = "{stack.catalog.region}" }}'
    return f"{sign}\ncredentials = {_credentials(stack.catalog)}\n"


def _credentials(service: Service) -> str:
    return f'{{ access_key_id = "{service.access_key_id}", secret_access_key = "{service.secret_access_key}" }}'


def _table(pipeline: Pipeline) -> str:
    columns = "".join(
        f'  {{ name = "{column.name}", type = "{column.type}", required = {str(column.required).lower()} }},\n'
        for column in clickstream.COLUMNS
    )
    properties = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in pipeline.table_properties.items())
    return f"""[[table]]
name = "{pipeline.tables.rows}"
partition_by = {json.dumps(pipeline.partition_by)}
properties = {{ {properties} }}
columns = [
{columns}]
"""
