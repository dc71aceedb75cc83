"""The two readers that nobody here wrote, opened on a stack: PyIceberg and DuckDB.

They use the readers' own key and go to the parts directly, so that what the proxies saw is the functions'
alone. DuckDB's extensions come as wheels and are loaded from there: it downloads nothing.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from icefall_local.stack import Stack

READERS = ("duckdb", "pyiceberg")
_DUCKDB_THREADS = 8
"""More than there may be cores: of many small files, most of the time is waiting for the store."""
_EXTENSIONS = ("avro", "httpfs", "iceberg")


def catalog_properties(stack: Stack) -> dict[str, str]:
    """What PyIceberg needs to know to open the stack's catalog."""
    signing = {
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": stack.catalog.region,
        "client.region": stack.catalog.region,
        "client.access-key-id": stack.reader.access_key_id,
        "client.secret-access-key": stack.reader.secret_access_key,
    }
    return {
        "uri": stack.catalog.direct_endpoint,
        "warehouse": stack.warehouse,
        **(signing if stack.signed else {}),
        "s3.endpoint": stack.store.direct_endpoint,
        "s3.region": stack.store.region,
        "s3.access-key-id": stack.reader.access_key_id,
        "s3.secret-access-key": stack.reader.secret_access_key,
    }


def java_properties(stack: Stack) -> dict[str, str]:
    """What Iceberg's Java reader needs to know to open the stack's catalog."""
    signing = {
        "rest.auth.type": "sigv4",
        "rest.signing-name": "s3tables",
        "rest.signing-region": stack.catalog.region,
        "rest.access-key-id": stack.reader.access_key_id,
        "rest.secret-access-key": stack.reader.secret_access_key,
    }
    return {
        "type": "rest",
        "uri": stack.catalog.direct_endpoint,
        "warehouse": stack.warehouse,
        **(signing if stack.signed else {}),
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "http-client.type": "apache",
        "client.region": stack.store.region,
        "s3.endpoint": stack.store.direct_endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": stack.reader.access_key_id,
        "s3.secret-access-key": stack.reader.secret_access_key,
    }


def open_catalog(stack: Stack) -> RestCatalog:
    return RestCatalog("icefall", **catalog_properties(stack))


def load_table(catalog: RestCatalog, name: str) -> Table | None:
    """The table as it is now; None when there is none."""
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        return None


def read_with_pyiceberg(stack: Stack, table: str, columns: tuple[str, ...]) -> pa.Table:
    """The whole table, through a scan."""
    return open_catalog(stack).load_table(table).scan(selected_fields=columns).to_arrow()


def read_with_duckdb(stack: Stack, table: str, columns: tuple[str, ...]) -> pa.Table:
    """The whole table, through DuckDB's Iceberg extension and its REST catalog."""
    named = ", ".join(f'"{column}"' for column in columns)
    with open_duckdb(stack) as connection:
        return connection.execute(f"SELECT {named} FROM lake.{table}").to_arrow_table()


def open_duckdb(stack: Stack) -> duckdb.DuckDBPyConnection:
    """A connection with the catalog attached as `lake`."""
    config: dict[str, str | int] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    connection = duckdb.connect(config={**config, "threads": _DUCKDB_THREADS})
    for statement in duckdb_statements(stack):
        connection.execute(statement)
    return connection


def duckdb_statements(stack: Stack) -> list[str]:
    """What a DuckDB session needs to say to open the stack's catalog."""
    key, secret = stack.reader.access_key_id, stack.reader.secret_access_key
    store, catalog = urlsplit(stack.store.direct_endpoint), stack.catalog.direct_endpoint
    token_server = f"OAUTH2_SERVER_URI '{catalog}/v1/oauth/tokens'"
    token = f"CREATE SECRET catalog (TYPE iceberg, CLIENT_ID '{key}', CLIENT_SECRET '{secret}', {token_server})"
    access = "SECRET catalog" if stack.signed else "AUTHORIZATION_TYPE 'none'"
    return [
        *(f"LOAD '{_extension(name)}'" for name in _EXTENSIONS),
        "SET TimeZone = 'UTC'",
        f"CREATE SECRET objects (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION '{stack.store.region}', "
        f"ENDPOINT '{store.netloc}', URL_STYLE 'path', USE_SSL false)",
        *([token] if stack.signed else []),
        f"ATTACH '{stack.warehouse}' AS lake (TYPE iceberg, ENDPOINT '{catalog}', {access})",
    ]


def _extension(name: str) -> Path:
    package = find_spec(f"duckdb_extension_{name}")
    if package is None or package.submodule_search_locations is None:
        raise ImportError(f"duckdb_extension_{name} is not installed")
    root = Path(next(iter(package.submodule_search_locations)))
    return next(root.glob(f"extensions/v{duckdb.__version__}/{name}.duckdb_extension"))
