"""Read values as JSON, in the one form in which all readers' values are compared.

Iceberg's single-value JSON where that says something, but with the whole fraction of a second, structs by their
fields' names and maps as pairs; the Java reader's `Values` is its twin. So equal values are equal text.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import pyarrow as pa

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = datetime.datetime(1970, 1, 1)


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """The table's rows by column name."""
    columns = {name: [value(item) for item in table.column(name)] for name in table.column_names}
    return [{name: columns[name][row] for name in columns} for row in range(table.num_rows)]


def value(scalar: pa.Scalar) -> Any:
    """One value."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if isinstance(kind, pa.BaseExtensionType):
        return value(scalar.value) if not pa.types.is_fixed_size_binary(kind.storage_type) else _uuid(scalar.value.as_py())
    if pa.types.is_struct(kind):
        return {field.name: value(scalar[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return [[value(pair["key"]), value(pair["value"])] for pair in scalar.values]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value(item) for item in scalar.values]
    if pa.types.is_timestamp(kind):
        return _moment(scalar.value, kind)
    if pa.types.is_time(kind):
        return scalar.as_py().isoformat(timespec="microseconds")
    return _plain(scalar.as_py())


def _plain(found: Any) -> Any:
    if isinstance(found, bytes):
        return found.hex()
    if isinstance(found, uuid.UUID):
        return str(found)
    if isinstance(found, decimal.Decimal):
        return format(found, "f")
    if isinstance(found, datetime.date):
        return found.isoformat()
    return found


def _uuid(found: Any) -> str:
    return str(found if isinstance(found, uuid.UUID) else uuid.UUID(bytes=found))


def _moment(ticks: int, kind: pa.TimestampType) -> str:
    """From the number itself: Python's own type ends at microseconds."""
    seconds, fraction = divmod(ticks, _PER_SECOND[kind.unit])
    text = (_EPOCH + datetime.timedelta(seconds=seconds)).isoformat()
    digits = 9 if kind.unit == "ns" else 6
    fraction = fraction * 10**digits // _PER_SECOND[kind.unit]
    return f"{text}.{fraction:0{digits}}{'+00:00' if kind.tz else ''}"
