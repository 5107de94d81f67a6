"""``ptxwcet annotate``: each cycle of a bound at one line, and why."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from places import SAMPLES
from programs import run_program
from sass_listings import SASS, raw, stand_in

from ptxwcet.bounds.explanation import PaidCycles
from ptxwcet.commands.annotate.report import (
    NO_INSTRUCTION,
    OUTSIDE,
    AnnotatedKernel,
    AnnotatedLine,
    AnnotationReport,
    build_annotation,
)
from ptxwcet.commands.annotate.study import explain_file
from ptxwcet.commands.annotate.text import render_annotation_text
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

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


# --- regions --------------------------------------------------------------------------------------


def test_regions_are_the_sums_of_their_lines_and_nothing_else_is_listed() -> None:
    """A line that calls a function has what is inlined there, of a header of CUDA."""
    answer = explain_file(HISTOGRAM, ("6-8", "histogram.cu:8"))
    row = only(build_annotation(answer, only=True))
    (bounded,) = answer.answered
    paid = bounded.explained.paid
    for region, lines in zip(row.regions, (range(6, 9), range(8, 9)), strict=True):
        inside, inlined = [], 0
        for index, instruction in enumerate(bounded.kernel.instructions):
            place = instruction.location
            while place is not None and not (
                place.file.endswith("histogram.cu") and place.line in lines
            ):
                place, inlined = place.inlined_at, inlined + 1
            inside += [index] if place is not None else []
        assert region.cycles == sum(paid[index].total for index in inside if index in paid)
        assert inlined
    loop, atomic = row.regions
    assert (loop.text, atomic.text) == ("6-8", "histogram.cu:8")
    assert (loop.cycles or 0) > (atomic.cycles or 0) > 0
    listed = [line for file in row.files for line in file.lines]
    assert {line.line for line in listed} <= {6, 7, 8}
    assert sum(one.cycles or 0 for one in (*listed, *row.elsewhere)) == row.bound.bound_cycles
    assert row.elsewhere[-1].text == OUTSIDE
    assert (row.elsewhere[-1].cycles or 0) + (loop.cycles or 0) == row.bound.bound_cycles


MARKED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .pred %q<3>; .reg .b32 %r<9>; .reg .b64 %d<3>;
  // ptxwcet: region all
  ld.param.u64 %d1, [p];
  /* ptxwcet: region load */
  ld.global.u32 %r2, [%d1];
  // ptxwcet: region end
  add.u32 %r3, %r2, %r2;
  // ptxwcet: region load
  ld.global.u32 %r4, [%d1+4];
  // ptxwcet: region end
  // ptxwcet: region end
  st.global.u32 [%d1], %r4;
  ret;
}
"""


def regions_of(tmp_path: Path, text: str, *places: str) -> AnnotatedKernel | str:
    path = tmp_path / "k.ptx"
    path.write_text(text)
    answer = explain_file(Request(str(path), block="32"), places)
    if answer.refused:
        return answer.refused[0].diagnostics[0].code
    return only(build_annotation(answer, only=bool(places)))


def test_marked_regions_lie_in_one_another_and_copies_are_one(tmp_path: Path) -> None:
    row = regions_of(tmp_path, MARKED)
    assert isinstance(row, AnnotatedKernel)
    paid = {line.line: line.cycles or 0 for line in row.files[0].lines}
    found = {region.text: region.cycles for region in row.regions}
    assert found == {
        "load": paid[10] + paid[14],
        "all": sum(paid[line] for line in (8, 10, 12, 14)),
    }
    alone = regions_of(tmp_path, MARKED, "load")
    assert isinstance(alone, AnnotatedKernel)
    assert [line.line for line in alone.files[0].lines] == [10, 14]


def test_places_that_are_none_and_halves_of_marks_are_refused(tmp_path: Path) -> None:
    assert regions_of(tmp_path, MARKED, "store") == "PW651"
    assert regions_of(tmp_path, MARKED, "k.cu:7") == "PW651"
    (refused,) = explain_file(Request(str(tmp_path / "k.ptx"), block="32"), ("k.cu:7",)).refused
    assert "k.cu:7, as its code names no lines of a source" in refused.diagnostics[0].message
    request = Request(str(SAMPLES / "vector_add.ptx"), block="32", parameters=("n=9",))
    (refused,) = explain_file(request, ("vector_add.cu:999",)).refused
    assert refused.diagnostics[0].message.endswith("is of the lines vector_add.cu:999")
    assert regions_of(tmp_path, MARKED.replace("// ptxwcet: region end", "", 1)) == "PW248"
    assert regions_of(tmp_path, MARKED.replace("// ptxwcet: region all", "")) == "PW248"
    with pytest.raises(PtxwcetError, match="is no fact"):
        regions_of(tmp_path, MARKED.replace("region all", "region all of it"))


# --- ports ----------------------------------------------------------------------------------------

SAXPY = (str(SAMPLES / "saxpy.ptx"), "--block", "256", "--grid", "4", "--param", "n=4000")


def test_ports_of_a_loop_by_instruction() -> None:
    code, text, _ = run_program("annotate", "ports", *SAXPY)
    assert code == 0
    (head,) = (line for line in text.splitlines() if line.startswith("line "))
    assert head.split() == ["line", "issue", "GMEM", "INT", "SP", "chain"]
    assert "loop $L__BB0_2  saxpy.cu:3  3 iterations alike" in text
    assert "all            11     3   10   1    204" in text
    # the first load of an iteration waits to overwrite what that of the iteration before writes
    assert "saxpy.cu:4      1     1               *  ld.global.f32 %f2, [%rd6];" in text
    assert "\nbusiest issue 11, chain 204; a warp alone takes 253\n  " in text


def test_ports_as_data_add_up() -> None:
    code, text, _ = run_program("annotate", "ports", *SAXPY, "--format", "json")
    report = json.loads(text)
    assert code == 0
    jsonschema.validate(report, schema_of("ports"))
    (loop,) = report["kernels"][0]["loops"]
    for port, cycles in loop["ports"].items():
        assert cycles == sum(row["ports"].get(port, 0) for row in loop["instructions"])
    assert loop["exact"]
    assert loop["alone_cycles"] >= max(loop["chain_cycles"], *loop["ports"].values())


def test_ports_of_machine_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch).write_text(f"print({raw('sgemm_naive_86')!r})")
    sizes = [word for place in "345" for word in ("--param", f"{place}=1024")]
    file = str(SASS / "sgemm_naive_86.cubin")
    words = ("annotate", "ports", file, "--block", "32x32", "--machine", "rtx-4070", *sizes)
    code, text, _ = run_program(*words)
    assert code == 0
    assert "loop .L_x_1  sgemm_naive.cu:13  31 iterations alike" in text
    assert [line for line in text.splitlines() if "FFMA" in line and "*" in line]
    assert "busiest LSU 176, chain" in text


def test_a_loop_stands_at_one_line_in_ports_and_bounds() -> None:
    """At the line at which a bound by line finds it."""
    words = (str(SAMPLES / "scan.ptx"), "--launch", str(SAMPLES / "launches/scan.toml"))
    _, ports, _ = run_program("annotate", "ports", *words, "--format", "json")
    _, bounds, _ = run_program(*words, "--format", "json")
    _, graph, _ = run_program("cfg", *words, "--format", "text")
    lines = [
        [(loop["block"], loop[key]) for loop in json.loads(text)["kernels"][0]["loops"]]
        for text, key in ((ports, "place"), (bounds, "source_line"))
    ]
    assert lines[0] == lines[1]
    for label, at in lines[0]:
        assert re.search(rf"^ +{re.escape(label)} +{re.escape(at)}  at most", graph, re.M)


def test_phases_that_are_not_known_are_told_beside_an_empty_table(tmp_path: Path) -> None:
    words = ("annotate", "phases", str(SAMPLES / "mandelbrot.ptx"), "--block", "32x8")
    words = (*words, "--loop-bound", "$L__BB0_2=9", "--format", "csv")
    code, table, told = run_program(*words)
    assert (code, table) == (0, "kernel,warp,phase,start,cycles,repeats\n")
    assert "kernel mandelbrot, warp 0: execution time and phases are not given" in told
    assert run_program(*words, "--quiet").err == ""
