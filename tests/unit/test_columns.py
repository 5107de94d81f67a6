"""Columns of reports: stated at a field, and shown in texts, JSON and tables of notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field, replace

import pytest
from places import SAMPLES

from ptxwcet.cli.output import json_text
from ptxwcet.commands.memory.report import (
    KernelAccessesRow,
    MemoryReport,
    build_memory_report,
    render_memory_text,
)
from ptxwcet.commands.memory.study import study_accesses
from ptxwcet.library.shown import memory_tables
from ptxwcet.library.tables import rows_table
from ptxwcet.opened.request import Request
from ptxwcet.report.access_rows import AccessRow
from ptxwcet.report.columns import NOTEBOOK, TEXT, shown, text_table
from ptxwcet.report.head import row_like
from ptxwcet.report.reading import read_as
from ptxwcet.support.records import dataclass

pytestmark = pytest.mark.fast


@dataclass(frozen=True, slots=True)
class Strided(AccessRow):
    """An access with one field more than reports have."""

    stride: int = field(default=0, metadata=shown("stride", unit="B"))


@dataclass(frozen=True, slots=True)
class Row:
    """A row with a column of each kind."""

    name: str = field(metadata=shown("name", notebook="kernel", at=1))
    cycles: int | None = field(metadata=shown("cycles", none="-"))
    share: float = field(metadata=shown("share", form=".1f", unit="%"))
    note: str = field(metadata=shown("note", is_optional=True))
    units: Mapping[str, int] = field(metadata=shown("units", is_right=True))
    text: str = field(default="", metadata=shown("text", lambda row: row.name * 2, only=TEXT))
    table: str = field(default="", metadata=shown("table", lambda row: 1000, only=NOTEBOOK))
    hidden: str = "?"


ROWS = (Row("a", 12_345, 7.25, "", {"fma": 3}), Row("bc", None, 10.0, "", {"load": 20}))
UNITS: Mapping[str, str | Mapping[str, str]] = {"units": {"load": "loads", "fma": "fmas"}}


def test_a_field_is_a_column_of_every_format() -> None:
    request = Request("transpose_naive.ptx", block="32x8", parameters=("width=1024",))
    answer = study_accesses(replace(request, path=str(SAMPLES / request.path)))
    report = build_memory_report(answer, None)
    (kernel,) = report.kernels
    assert isinstance(kernel, KernelAccessesRow)
    accesses = tuple(row_like(Strided, row, stride=4096) for row in kernel.accesses)
    other = replace(report, kernels=(replace(kernel, accesses=accesses),))
    text = render_memory_text(other).splitlines()
    assert sum("stride" in line.split() for line in text) == 1
    assert sum("4,096 B" in line for line in text) == len(accesses)
    data = json.loads(json_text(other))
    assert [row["stride"] for row in data["kernels"][0]["accesses"]] == [4096] * len(accesses)
    html = "".join(memory_tables(other))
    assert html.count(">stride<") == 1
    assert html.count(">4,096<") == len(accesses)
    assert read_as(MemoryReport, json.loads(json_text(report))) == report


def test_texts_have_the_columns_that_say_so() -> None:
    assert text_table(ROWS, UNITS) == [
        "cycles   share  loads  fmas  text  name",
        "12,345   7.2 %            3  aa    a",
        "     -  10.0 %     20        bcbc  bc",
    ]


def test_what_is_left_out_is_counted() -> None:
    (line, more) = text_table(ROWS, {"units": {}}, has_head=False, most=1, indent="  ")
    assert line == "  12,345  7.2 %  aa  a"
    assert more == "  and 1 more (--format json lists all)"
    assert text_table((), UNITS) == []


def test_an_optional_column_stands_where_it_has_something() -> None:
    heads, first, _ = text_table((replace(ROWS[0], note="slow"), ROWS[1]), {"units": {}})
    assert heads.split() == ["cycles", "share", "note", "text", "name"]
    assert first.split() == ["12,345", "7.2", "%", "slow", "aa", "a"]


def test_cells_of_a_caller_come_last() -> None:
    lines = text_table(ROWS, {"units": {}, "name": "who"}, more=[("1,000,000", "", "", "all")])
    assert lines[0].endswith("who")
    assert lines[-1] == "1,000,000                all"


def test_notebooks_leave_out_what_is_empty() -> None:
    html = rows_table("all", ROWS, UNITS)
    assert re.findall("<th[^>]*>([^<]*)", html) == [
        *("cycles", "share", "loads", "fmas", "table", "kernel"),
    ]
    assert ">1,000</td>" in html
    assert "hidden" not in html
