"""``results.parquet`` as columns, through pyarrow; columns that nobody asks for are not read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxwcet.support.extras import require_extra
from ptxwcet.sweeps.results.results_table import (
    FLOAT_COLUMNS,
    TEXT_COLUMNS,
    Codes,
    NotResults,
    RawColumns,
    require_columns,
)


def read_parquet(data: bytes) -> RawColumns:
    """The columns of a Parquet file. Raises NotResults, PtxwcetError (PW235). Cost: linear."""
    require_extra("sweep", "reading Parquet")
    # here: an extra, which only this kind of file needs
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(pyarrow.BufferReader(data))
        schema = file.schema_arrow
        plan_columns = require_columns(tuple(schema.names))
        wanted = (*plan_columns, *TEXT_COLUMNS, "unit", "memory_latency", "cycles", *FLOAT_COLUMNS)
        table = file.read(columns=list(wanted))
    except (pyarrow.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0]
        raise NotResults(f"pyarrow cannot read it ({first[:200]})") from None
    metadata = schema.metadata or {}
    said = [
        metadata[key].decode("utf-8", "replace") if key in metadata else None
        for key in (b"ptxwcet.plan", b"ptxwcet.plan_sha256")
    ]
    encoded = {name: _encoded(name, table.column(name), "text") for name in TEXT_COLUMNS}
    for name in plan_columns:
        encoded[name] = _encoded(name, table.column(name), "text or integer")
    encoded["memory_latency"] = _encoded(
        "memory_latency", table.column("memory_latency"), "integer"
    )
    integers = {name: _numbers(name, table.column(name), "integer") for name in ("unit", "cycles")}
    floats = {name: _numbers(name, table.column(name), "float") for name in FLOAT_COLUMNS}
    return RawColumns(said[0], said[1], plan_columns, encoded, integers, floats)


def _kind(kind: Any) -> str:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_integer(kind):
        return "integer"
    if types.is_floating(kind):
        return "float"
    return "null" if types.is_null(kind) else str(kind)


def _require_kind(name: str, column: Any, wanted: str) -> str:
    kind = _kind(column.type)
    if kind != "null" and kind not in wanted.split():
        raise NotResults(f"the column {name} is of {kind}, not of {wanted}")
    return kind


def _encoded(name: str, column: Any, wanted: str) -> tuple[list[int | str], Codes]:
    """The different values of a column, and the number of each row's; -1 for none."""
    import pyarrow

    if _require_kind(name, column, wanted) == "null":
        return [], np.full(len(column), -1, np.int32)
    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    parts = [chunk.indices.fill_null(-1).to_numpy() for chunk in column.chunks]
    values = column.chunk(0).dictionary.to_pylist() if parts else []
    codes = np.concatenate(parts).astype(np.int32) if parts else np.empty(0, np.int32)
    return values, codes


def _numbers(name: str, column: Any, wanted: str) -> Any:
    """The numbers of a column: -1 or NaN where it has none."""
    import pyarrow

    kind = _require_kind(name, column, wanted)
    target, empty = (pyarrow.float64(), np.nan) if wanted == "float" else (pyarrow.int64(), -1)
    if kind == "null":
        return np.full(len(column), empty)
    try:
        return column.cast(target).fill_null(pyarrow.scalar(empty, target)).to_numpy()
    except pyarrow.ArrowInvalid as error:
        raise NotResults(f"the column {name}: {error}") from None
