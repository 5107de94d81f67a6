"""``ptxwcet annotate``: each cycle of a bound at one line, and why."""

from __future__ import annotations

import csv
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from places import SAMPLES
from programs import run_program

from ptxwcet.bounds.explanation import PaidCycles
from ptxwcet.commands.annotate.report import (
    NO_INSTRUCTION,
    AnnotatedKernel,
    AnnotatedLine,
    AnnotationReport,
    build_annotation,
)
from ptxwcet.commands.annotate.study import explain_file
from ptxwcet.commands.annotate.text import render_annotation_text
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.opened.request import Request

HISTOGRAM = Request(str(SAMPLES / "histogram.ptx"), block="256", grid="8", parameters=("n=100000",))
SAMPLES_TO_LIST = (
    HISTOGRAM,
    Request(str(SAMPLES / "bitonic_sort.ptx"), block="1024"),
    Request(
        str(SAMPLES / "transpose_tiled.ptx"),
        block="32x8",
        grid="64x32",
        parameters=("width=2048", "height=1024"),
        machine="titan-v",
    ),
    Request(
        str(SAMPLES / "block_reduce.ptx"),
        kernels=("block_reduce_shuffle",),
        block="256",
        parameters=("n=100000",),
    ),
)


def annotated(request: Request, **how: bool) -> AnnotationReport:
    return build_annotation(explain_file(request), **how)  # type: ignore[arg-type]


def only(report: AnnotationReport) -> AnnotatedKernel:
    (row,) = report.kernels
    assert isinstance(row, AnnotatedKernel)
    return row


def lines_of(row: AnnotatedKernel) -> Iterator[AnnotatedLine]:
    for file in row.files:
        yield from file.lines
    yield from row.elsewhere


@pytest.mark.parametrize("wants_ptx", [False, True])
@pytest.mark.parametrize("request_", SAMPLES_TO_LIST, ids=lambda one: Path(one.path).stem)
def test_lines_add_up_to_the_bounds(request_: Request, wants_ptx: bool) -> None:
    answer = explain_file(request_)
    row = only(annotated(request_, wants_ptx=wants_ptx))
    lines = list(lines_of(row))
    assert row.code == ("ptx" if wants_ptx else "source")
    assert sum(line.cycles or 0 for line in lines) == row.bound.bound_cycles
    for line in lines:
        parts = line.issue + line.waiting_for_result + line.waiting_for_unit + line.interference
        assert parts == (line.cycles or 0)
        assert (line.cause is None) == (not line.cycles)
    paid = answer.answered[0].explained.paid.values()
    whole = PaidCycles(*(sum(column) for column in zip(*paid, strict=True)))
    assert sum(line.waiting_for_result for line in lines) == whole.result
    if row.bound.launch is not None:
        assert sum(line.launch_cycles or 0 for line in lines) == row.bound.launch.cycles
    else:
        assert {line.launch_cycles for line in lines} == {None}


def test_the_cause_is_the_part_and_the_opcode_that_pay_most() -> None:
    (line,) = (
        one for one in only(annotated(HISTOGRAM)).files[0].lines if "atomicAdd(&local" in one.text
    )
    assert line.cause is not None
    assert (line.cause.part, line.cause.opcode) == ("result", "ld.global.u8")
    assert line.waiting_for_result > max(line.issue, line.waiting_for_unit, line.interference)
    assert line.cause.cycles <= line.waiting_for_result
    assert line.cycles is not None
    assert line.waiting_for_result < line.cycles


def test_each_instruction_of_a_ptx_listing_has_its_own_cause() -> None:
    for line in lines_of(only(annotated(HISTOGRAM, wants_ptx=True))):
        if line.cause is not None:
            assert line.cause.opcode in line.text
            assert line.cycles is not None
            assert line.cause.cycles == max(
                line.issue, line.waiting_for_result, line.waiting_for_unit, line.interference
            )


def test_what_no_source_at_hand_pays_is_elsewhere() -> None:
    row = only(annotated(HISTOGRAM))
    assert row.missing == ("device_atomic_functions.hpp",)
    (line,) = row.elsewhere
    assert (line.line, line.text) == (None, "device_atomic_functions.hpp:112")
    assert line.cycles == 11_264


def test_without_the_source_ptx_is_listed(tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLES / "vector_add.ptx", tmp_path / "other.ptx"))
    row = only(annotated(Request(str(path), block="256", parameters=("3=1000",))))
    assert (row.code, row.missing) == ("ptx", ("vector_add.cu",))
    assert sum(line.cycles or 0 for line in lines_of(row)) == 662
    named = Request(
        str(path), block="256", parameters=("n=1000",), source=str(SAMPLES / "vector_add.cu")
    )
    report = build_annotation(explain_file(named), source=named.source)
    assert only(report).code == "source"


def test_lines_that_the_source_does_not_have_are_elsewhere(tmp_path: Path) -> None:
    """A source that was changed after it was compiled, and a header that is not there."""
    path = Path(shutil.copy(SAMPLES / "block_reduce.ptx", tmp_path))
    text = (SAMPLES / "block_reduce.cu").read_text().splitlines()
    path.with_suffix(".cu").write_text("\n".join(text[:21]) + "\n")
    request = Request(
        str(path), kernels=("block_reduce_shuffle",), block="256", parameters=("n=1000",)
    )
    row = only(annotated(request))
    assert [file.name for file in row.files] == ["block_reduce.cu"]
    assert row.missing == ("sm_30_intrinsics.hpp",)
    assert max(line.line or 0 for line in row.files[0].lines) == 21
    places = {line.text for line in row.elsewhere}
    assert {"block_reduce.cu:27", "sm_30_intrinsics.hpp:440"} <= places
    assert sum(line.cycles or 0 for line in lines_of(row)) == row.bound.bound_cycles


def test_cycles_that_no_instruction_takes_are_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.ptx"
    path.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\n ret;\n}\n")
    machine = "orin-ecrts2025-16sm"
    row = only(annotated(Request(str(path), block="32", grid="4", machine=machine)))
    assert row.bound.launch is not None
    assert sum(line.launch_cycles or 0 for line in lines_of(row)) == row.bound.launch.cycles
    assert NO_INSTRUCTION not in {line.text for line in row.elsewhere if not line.launch_cycles}


def test_the_text_has_a_line_for_each_line_and_the_sums() -> None:
    text = render_annotation_text(annotated(HISTOGRAM))
    shown = [line.split() for line in text.splitlines()]
    (hot,) = (words for words in shown if "atomicAdd(&local[in[i]]," in words)
    assert hot[:10] == [
        "101,713",
        "14,162",
        "50.9",
        "%",
        "waits",
        "for",
        "ld.global.u8",
        "70",
        "%",
        "8",
    ]
    assert ["221,783", "27,809", "100.0", "%", "all", "lines"] in shown
    assert "source device_atomic_functions.hpp is not at hand" in text


def test_lines_that_pay_much_are_painted() -> None:
    arguments = ("annotate", HISTOGRAM.path, "--block", "256", "--param", "n=100000", "--grid", "8")
    painted = run_program(*arguments, "--color", "always").out.splitlines()
    hot = [line for line in painted if line.startswith("\x1b[33m")]
    assert ["atomicAdd(&local" in line for line in hot] == [True, False]
    assert "\x1b" not in run_program(*arguments).out


def test_the_command(tmp_path: Path) -> None:
    found = run_program(
        *("annotate", SAMPLES / "loops.ptx", "--block", "64", "--param", "n=10"),
        *("-k", "loop_up", "-k", "loop_nested", "--format", "json"),
    )
    assert found.code == 1
    assert "error[PW203]" in found.err
    data = json.loads(found.out)
    jsonschema.Draft202012Validator(schema_of("annotation")).validate(data)
    assert [row["status"] for row in data["kernels"]] == ["annotated", "refused"]
    shown = run_program("annotate", SAMPLES / "loops.ptx", "--block", "64", "-k", "loop_nested")
    assert shown.code == 1
    assert "REFUSED" in shown.out


@pytest.mark.parametrize("name", ["loop_up", "loop_nested"])
def test_phases_as_a_table_add_up(name: str) -> None:
    """All executions of all phases, repeats multiplied out, are the execution time."""
    words = (SAMPLES / "loops.ptx", "-k", name, "--block", "64", "--param", "n=100")
    words += ("--param", "m=50") if name == "loop_nested" else ()
    (alone,) = json.loads(run_program("annotate", "phases", *words, "--format", "json").out)
    text = run_program("annotate", "phases", *words, "--format", "csv").out
    rows = list(csv.DictReader(text.splitlines()))
    assert any("@" in row["repeats"] for row in rows)
    total = 0
    for row in rows:
        times = [int(one.partition("@")[0]) for one in row["repeats"].split()]
        total += math.prod(times) * int(row["cycles"]) * (row["phase"] == "exec")
    assert total == alone["execution_cycles"]
    assert {(row["kernel"], row["warp"]) for row in rows} == {(name, "0")}
