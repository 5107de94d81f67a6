"""The results of a sweep, ``results.parquet``, as a data frame: read and checked.

A row is a unit: one kernel of one file with one launch on one machine. Columns of names and numbers
are categorical, so that a million rows take some tens of megabytes; their values are in order. The
columns of the plan are between ``key`` and ``file``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
import pyarrow
from pyarrow import parquet, types

from ptxwcet.claims import Guarantee
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_DATA_BYTES, read_bytes
from ptxwcet.support.records import dataclass

_VARIANT_COLUMNS = ("file", "kernel", "block", "grid", "memory_latency", "method", "policy")
"""The columns that distinguish variants, in addition to the plan's; neither the machine nor a
memory latency that is the machine's own."""
_TEXTS = (
    *("file", "kernel", "readable", "machine", "machine_sha256", "block", "grid", "method"),
    *("policy", "outcome", "of", "guarantee", "assumptions", "code", "message", "version"),
)
_NUMBERS = {"unit": "integer", "cycles": "integer", "seconds": "float"}
_KINDS = {**dict.fromkeys(_TEXTS, "text"), "memory_latency": "integer", **_NUMBERS}
"""The columns that are read in addition to the plan's; other columns of the file are ignored."""
_WORDS = {
    "outcome": {"bounded", "refused", "failed"},
    "of": {"launch", "block"},
    "guarantee": {one.value for one in Guarantee},
}
_MOST_SORTED = 10_000  # values of a column that are sorted: more are too many to read


@dataclass(frozen=True, slots=True, eq=False)
class ResultsTable:
    """The results of a sweep; ``rows`` are in the order of its units.

    ``variant_columns`` distinguish variants, those of the plan first. ``cycles`` of a row is -1
    without a bound; all columns but ``unit``, ``cycles`` and ``seconds`` are categorical, numbers
    in their order, texts in the order of the numbers in them (``8x8`` before ``16x16``).
    """

    path: str
    sha256: str
    plan: str | None
    plan_sha256: str | None
    plan_columns: tuple[str, ...]
    variant_columns: tuple[str, ...]
    rows: pandas.DataFrame

    def values(self, name: str) -> tuple[int | str, ...]:
        """Returns the different values of a column, in order."""
        return tuple(self.rows[name].cat.categories.tolist())

    def has_empty(self, name: str) -> bool:
        """Returns whether a row has nothing in a column."""
        return bool(self.rows[name].isna().any())

    def only(self, kept: pandas.Series) -> ResultsTable:
        """Returns the rows of a mask, and only their values in columns."""
        return replace(self, rows=_in_use(self.rows[kept]))


class _NotResults(Exception):
    """A file that is not the result of a sweep, and why."""


def read_results(path: str) -> ResultsTable:
    """Returns the results in a file of Parquet.

    Raises PtxwcetError (PW824) if the file cannot be read, is another file, or is malformed. Cost:
    linear in the file, about 2 s for a million rows.
    """
    try:
        data = read_bytes(path, MOST_DATA_BYTES)
    except OSError as error:
        raise _refused(f"cannot read '{path}': {error.strerror or error}") from None
    try:
        return _table(path, data)
    except _NotResults as error:
        raise _refused(f"'{path}' is no result of a sweep: {error}") from None


def _refused(message: str) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW824", message, help="give the results.parquet of a sweep"))


def _table(path: str, data: bytes) -> ResultsTable:
    """Returns the table, if its columns are consistent. Raises _NotResults."""
    try:
        file = parquet.ParquetFile(pyarrow.BufferReader(data))
        schema = file.schema_arrow
        plan_columns = _plan_columns(schema.names)
        kinds = {**dict.fromkeys(plan_columns, "text or integer"), **_KINDS}
        columns = file.read(columns=list(kinds))
    except (pyarrow.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0]
        raise _NotResults(f"pyarrow cannot read it ({first[:200]})") from None
    rows = pandas.DataFrame(
        {name: _column(name, columns.column(name), kind) for name, kind in kinds.items()}
    )
    _require_sense(rows)
    rows["kernel"] = _kernels(rows)
    rows["machine"] = _machines(rows)
    own = [*plan_columns, *_VARIANT_COLUMNS]
    machines, latencies = (rows[name].cat.categories for name in ("machine", "memory_latency"))
    pairs = rows[["machine", "memory_latency"]].drop_duplicates()
    if len(pairs) == len(machines) and len(latencies) > 1:
        own.remove("memory_latency")
    rows = rows.sort_values("unit", kind="stable", ignore_index=True)
    rows["cycles"] = rows["cycles"].where(rows["outcome"] == "bounded", -1)
    said = schema.metadata or {}
    plan, plan_sha256 = (
        said[key].decode("utf-8", "replace") if key in said else None
        for key in (b"ptxwcet.plan", b"ptxwcet.plan_sha256")
    )
    about = (path, hashlib.sha256(data).hexdigest(), plan, plan_sha256)
    return ResultsTable(*about, plan_columns, tuple(own), rows)


def _plan_columns(names: list[str]) -> tuple[str, ...]:
    """Returns the columns of the plan in a file with these. Raises _NotResults."""
    missing = sorted(_KINDS.keys() - set(names))
    if missing:
        shown = ", ".join(missing[:5]) + ", ..." * (len(missing) > 5)
        raise _NotResults(f"it has no column {shown}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _NotResults(f"it has the column {twice[0]} twice")
    if "key" not in names or names.index("key") > names.index("file"):
        raise _NotResults("it has no column key before the column file")
    return tuple(names[names.index("key") + 1 : names.index("file")])


def _column(name: str, column: Any, wanted: str) -> pandas.Series:
    """Returns a column of the frame: -1 or NaN where a number is missing. Raises _NotResults."""
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    is_of = {
        "text": types.is_string(kind) or types.is_large_string(kind),
        "integer": types.is_integer(kind),
        "float": types.is_floating(kind),
    }
    known = next((word for word, holds in is_of.items() if holds), str(kind))
    if not types.is_null(kind) and known not in wanted.split():
        raise _NotResults(f"the column {name} is of {known}, not of {wanted}")
    if name in _NUMBERS:
        target, empty = (pyarrow.float64(), np.nan) if wanted == "float" else (pyarrow.int64(), -1)
        try:
            return column.cast(target).fill_null(pyarrow.scalar(empty, target)).to_pandas()
        except pyarrow.ArrowInvalid as error:
            raise _NotResults(f"the column {name}: {error}") from None
    if types.is_null(kind):
        column = column.cast(pyarrow.string())
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    found = column.unify_dictionaries().to_pandas()
    return _in_order(found.cat.remove_unused_categories())


def _in_order(column: pandas.Series) -> pandas.Series:
    """Returns a column with its values in order."""
    values = column.cat.categories.tolist()
    if len(values) > _MOST_SORTED:
        return column
    return column.cat.reorder_categories(sorted(values, key=_natural))


def _natural(value: int | str) -> tuple[tuple[int, int, str], ...]:
    """Returns the sort key of a value: the numbers in a text count as numbers."""
    if isinstance(value, int):
        return ((0, value, ""),)
    parts = re.split(r"([0-9]{1,18})", value)
    return tuple((0, int(one), one) if at % 2 else (1, 0, one) for at, one in enumerate(parts))


def _in_use(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns rows without unused values of columns."""
    named = [name for name in rows if name not in _NUMBERS]
    used = {name: rows[name].cat.remove_unused_categories() for name in named}
    return rows.assign(**used).reset_index(drop=True)


def _require_sense(rows: pandas.DataFrame) -> None:
    """Raises _NotResults for values that a sweep does not write."""
    if rows.empty:
        raise _NotResults("it has no rows")
    for name, known in _WORDS.items():
        strange = sorted(set(rows[name].cat.categories) - known)
        if strange:
            raise _NotResults(f"{strange[0]!r} in the column {name} means nothing")
    for name in ("outcome", "machine", "file"):  # the kernels of an unreadable file are unknown
        _require_none(rows[rows[name].isna()], f"has nothing in the column {name}")
    bounded = rows[(rows["outcome"] == "bounded") & (rows["cycles"] >= 0)]
    for name in ("of", "guarantee"):
        _require_none(bounded[bounded[name].isna()], f"has nothing in the column {name}")
    times = bounded["seconds"]
    _require_none(bounded[~(np.isfinite(times) & (times >= 0))], "has cycles but no seconds")


def _require_none(rows: pandas.DataFrame, what: str) -> None:
    if not rows.empty:
        raise _NotResults(f"unit {rows['unit'].iloc[0]} {what}")


def _kernels(rows: pandas.DataFrame) -> pandas.Series:
    """Returns the kernels by readable names, if these are distinct too."""
    first = rows[["kernel", "readable"]].dropna(subset="kernel").drop_duplicates("kernel")
    if first["readable"].isna().any() or first["readable"].duplicated().any():
        return rows["kernel"]
    known = dict(zip(first["kernel"], first["readable"], strict=True))
    return rows["kernel"].cat.rename_categories(known)


def _machines(rows: pandas.DataFrame) -> pandas.Series:
    """Machines by name; with the beginning of their hash where two machines share a name."""
    pairs = rows[["machine", "machine_sha256"]].drop_duplicates()
    if len(pairs) == len(rows["machine"].cat.categories):
        return rows["machine"]
    digests = rows["machine_sha256"].astype(object).fillna("?").str[:8]
    labels = rows["machine"].astype(object) + " (" + digests + ")"
    if labels.nunique() < len(pairs):
        raise _NotResults("two machines have one name and hashes that begin alike")
    return _in_order(labels.astype("category"))
