"""Tells how to look at a stack that stays up: snippets that run as they are printed."""

from __future__ import annotations

import json
import sys

from icefall_local.clickstream import DEAD_LETTER_TABLE, TABLE
from icefall_local.readers import catalog_properties, duckdb_statements
from icefall_local.stack import Stack


def how_to_query(stack: Stack) -> str:
    """Also writes the two scripts into the run's folder, so that nothing needs to be copied."""
    duck, ice = stack.folder / "query_duckdb.py", stack.folder / "query_pyiceberg.py"
    duck.write_text(duckdb_script(stack))
    ice.write_text(pyiceberg_script(stack))
    for script in (duck, ice):
        script.chmod(0o600)
    return f"""
The stack stays up until `cargo xtask down`.
  Kafka          {stack.kafka_bootstrap}  (topic {stack.topic})
  Iceberg REST   {stack.catalog.direct_endpoint}  (warehouse {stack.warehouse})
  object store   {stack.store.direct_endpoint}
  queue          {stack.direct_queue_url}
  Invoke API     {stack.lambda_endpoint}
  keys and more  {stack.folder}/stack.json
Query it:
  {sys.executable} -i {duck}
  {sys.executable} -i {ice}"""


def duckdb_script(stack: Stack) -> str:
    statements = ";\n".join(duckdb_statements(stack))
    return f'''"""DuckDB on this stack: `db.sql("...").show()`."""
import duckdb

db = duckdb.connect(config={{"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}})
db.execute("""
{statements};
""")
db.sql("SELECT event_type, count(*) AS events FROM lake.{TABLE} GROUP BY ALL ORDER BY 2 DESC").show()
db.sql("SELECT error_class, count(*) AS dead_letters FROM lake.{DEAD_LETTER_TABLE} GROUP BY ALL ORDER BY 2 DESC").show()
'''


def pyiceberg_script(stack: Stack) -> str:
    return f'''"""PyIceberg on this stack: `catalog` and `table` are yours."""
from pyiceberg.catalog.rest import RestCatalog

catalog = RestCatalog("icefall", **{json.dumps(catalog_properties(stack), indent=4)})
table = catalog.load_table("{TABLE}")
print(table)
print(table.scan(limit=5).to_arrow().to_pylist())
'''
