"""Writes the functions' settings file for a stack.

Every part gets its own endpoint, region and keys, through the proxies: nothing is left to the environment.
The table is the field's usual example, declared with its columns so that the committer creates it.
"""

from __future__ import annotations

from icefall_local import clickstream
from icefall_local.stack import Service, Stack

_SERVICE = """endpoint = "{endpoint}"
region = "{region}"
{extra}credentials = {{ access_key_id = "{key}", secret_access_key = "{secret}" }}
"""


def render(stack: Stack, pipeline: str = "demo", commit_interval: str = "2s", linger: str = "2s", hold: str = "5s") -> str:
    """The whole file as TOML."""
    return f"""# Written for one run; the next run writes its own.
pipeline = "{pipeline}"

[kafka]
cluster = "{stack.kafka_cluster}"

[catalog]
uri = "{stack.catalog.endpoint}"
warehouse = "{stack.warehouse}"
sign = {{ name = "s3tables", region = "{stack.catalog.region}" }}
credentials = {_credentials(stack.catalog)}

[store]
{_service(stack.store, "path_style = true")}
[ops]
bucket = "{stack.ops_bucket}"
{_service(stack.ops, "path_style = true")}
[queue]
url = "{stack.queue_url}"
{_service(stack.queue, "")}
[committer]
commit_interval = "{commit_interval}"
linger = "{linger}"
hold = "{hold}"

[dead_letters]
table = "{clickstream.DEAD_LETTER_TABLE}"

{_table()}
[[route]]
topic = "{stack.topic}"
table = "{clickstream.TABLE}"
"""


def _service(service: Service, extra: str) -> str:
    return _SERVICE.format(
        endpoint=service.endpoint,
        region=service.region,
        extra=extra + "\n" if extra else "",
        key=service.access_key_id,
        secret=service.secret_access_key,
    )


def _credentials(service: Service) -> str:
    return f'{{ access_key_id = "{service.access_key_id}", secret_access_key = "{service.secret_access_key}" }}'


def _table() -> str:
    columns = "".join(
        f'  {{ name = "{column.name}", type = "{column.type}", required = {str(column.required).lower()} }},\n'
        for column in clickstream.COLUMNS
    )
    return f"""[[table]]
name = "{clickstream.TABLE}"
partition_by = ["hour(event_time)"]
columns = [
{columns}]
"""
