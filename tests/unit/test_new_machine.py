"""``ptxwcet machine new``, ``measure`` and ``microbenchmarks``: what they write and refuse."""

from __future__ import annotations

import csv
import re
import struct
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from parsing import parse_kernel, parse_text
from places import DOCS, ROOT
from programs import run_program

from ptxwcet.claims import AssumptionState
from ptxwcet.commands.machine import study as microbenchmark_runs
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.ir.kernel import unknown_instructions
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import load_machine, machine_names
from ptxwcet.machine.microbenchmarks import SHORT, microbenchmarks
from ptxwcet.machine.model import Evidence, OpTiming
from ptxwcet.machine.results import COLUMNS, MeasuredOp, read_results, results_template

sys.path.insert(0, str(ROOT / "tests" / "corpus"))
from cubin import PTXAS, assemble, sections

CS2R = 0x805  # reads a clock into two registers, on sm_75
NAMES = tuple(microbenchmarks())
PAGE = DOCS / "tutorials" / "machine.md"


def one_round(name: str) -> str:
    text = microbenchmarks()[name].text()
    assert text.count("%more, %round, 4") == 1
    return text.replace("%more, %round, 4", "%more, %round, 1")


@pytest.mark.parametrize("name", NAMES)
def test_the_emulator_runs_it(name: str) -> None:
    kernel = parse_kernel(one_round(name), f"{name}.ptx")
    assert unknown_instructions(kernel) == ()
    times, memory = np.zeros(9, np.uint64), np.zeros(1 << 16, np.uint64)
    launch = EmulatedLaunch((32, 1, 1), (1, 1, 1), (times, memory))
    done = execute(kernel, parse_text(one_round(name)), launch, options=EmulatorOptions())
    assert not done.findings
    after = done.buffers[0]
    assert after is not None
    statements = 2 if name in ("load_const_latency", "load_global_latency") else 1
    assert int(after[1]) - int(after[0]) == statements * SHORT


@pytest.mark.skipif(PTXAS is None, reason="no ptxas")
@pytest.mark.parametrize("name", NAMES)
def test_ptxas_keeps_the_statements_between_the_clocks(name: str, tmp_path: Path) -> None:
    cubin = assemble(microbenchmarks()[name].text(), tmp_path, name)
    assert isinstance(cubin, bytes), cubin
    found = []
    for code in (data for kind, data in sections(cubin) if kind == "text"):
        opcodes = [struct.unpack_from("<H", code, at)[0] & 0xFFF for at in range(0, len(code), 16)]
        found += [at for at, opcode in enumerate(opcodes) if opcode == CS2R][-4:]
    _, short, long = (end - begin for begin, end in pairwise(found))
    assert long - short >= SHORT


def test_everything_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "bench"
    assert run_program("machine", "microbenchmarks", "-o", folder).code == 0
    assert {path.stem for path in folder.glob("*.ptx")} == set(NAMES)
    readme = (folder / "README.md").read_text()
    assert all(f"| `{name}` | {one.formula} |" in readme for name, one in microbenchmarks().items())
    assert (folder / "results.csv").read_text() == results_template()
    (folder / "results.csv").write_text("mine")
    assert run_program("machine", "microbenchmarks", "-o", folder).code == 0
    assert (folder / "results.csv").read_text() == "mine"
    (tmp_path / "file").write_text("")
    assert run_program("machine", "microbenchmarks", "-o", tmp_path / "file").code == 2
    assert "is a file" in run_program("machine", "microbenchmarks", "-o", tmp_path / "file/x").err


def test_nothing_measured_is_a_copy_all_of_which_is_marked(tmp_path: Path) -> None:
    """For each machine that ships: the same figures, none of them with a claim left."""
    empty = tmp_path / "results.csv"
    empty.write_text(results_template())
    for base in machine_names():
        target = tmp_path / f"{base}.toml"
        done = run_program("machine", "new", "x", base, "-o", target, empty)
        assert (done.code, done.err) == (0, "")
        assert " 0 figures measured" in done.out
        assert run_program("machine", "check", target).code == 0
        copy, was = load_machine(str(target)), load_machine(base)
        assert copy.units == was.units
        assert copy.limits == was.limits
        assert {one.state for one in copy.satisfies} == {AssumptionState.DOUBTFUL}
        for op, row in was.timings.items():
            other = copy.timings[op]
            if isinstance(row, OpTiming) and isinstance(other, OpTiming):
                assert (other.unit, other.initiation_cycles) == (row.unit, row.initiation_cycles)
                assert (other.latency_cycles, other.rates) == (row.latency_cycles, row.rates)
                assert (other.forms, other.stalls) == (row.forms, row.stalls)
                assert other.evidence is Evidence.ASSUMED
                assert other.source.startswith(f"copied from {base}, not measured here; there ")
            else:
                assert not isinstance(row, OpTiming)
                assert not isinstance(other, OpTiming)
        for rules in (copy.memory, copy.dispatch, copy.occupancy):
            for key in getattr(rules, "__slots__", ()):
                figure = getattr(rules, key)
                assert figure is None or figure.evidence is Evidence.ASSUMED


def table_of(tmp_path: Path, *lines: str, header: str = ",".join(COLUMNS)) -> Path:
    path = tmp_path / "results.csv"
    path.write_text("\n".join((header, *lines)) + "\n")
    return path


PAIR = ("fp32_add_interval,100,148",)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("fp32_add,1,2",), "unknown microbenchmark fp32_add"),
        (("fp32_add_latency,1",), "2 fields where the first line has 3"),
        (("fp32_add_latency,1,x",), "x is no number of cycles"),
        (("fp32_add_latency,-1,9",), "-1 is no number of cycles"),
        (("fp32_add_latency,1.5,9",), "1.5 is no number of cycles"),
        (("fp32_add_latency,1,",), "nothing is no number of cycles"),
        (("fp32_add_latency,1,99999999999999",), "is no number of cycles"),
        (("fp32_add_latency,9,9",), "the long section took 9 cycles and the short one 9"),
        (("fp32_add_latency,100,196",), "fp32_add_interval is not"),
        (PAIR, "fp32_add_latency is not"),
        ((*PAIR, "fp32_add_latency,100,100000000"), "takes 4166663 cycles, more than"),
        (("fp32_add_interval,100,196", "fp32_add_latency,100,148"), "takes 2 cycles where one"),
        (("line_cycles,100,999999999900",), "more than a machine file may say"),
    ],
)
def test_results_that_are_refused(lines: Sequence[str], said: str, tmp_path: Path) -> None:
    results = table_of(tmp_path, *lines)
    target = tmp_path / "x.toml"
    done = run_program("machine", "new", "x", "titan-v", results, "-o", target)
    assert done.code == 1
    assert said in done.err
    assert "help: " in done.err
    assert not target.exists()


def test_the_worst_of_several_lines_counts(tmp_path: Path) -> None:
    """And what a chain has besides is taken off at its least."""
    rows = {
        "int_add_latency": (4, 6),
        "int_add_interval": (1, 3, 2),
        "load_const_latency": (20, 30, 10),
        "load_const_interval": (5, 4),
        "pass_cycles": (32, 33),
    }
    lines = [f"{key},9,{9 + SHORT * cycles}" for key, many in rows.items() for cycles in many]
    found = read_results(str(table_of(tmp_path, *lines)))
    assert found.ops == {
        OpClass.INT_ADD: MeasuredOp(3, 3),
        OpClass.LOAD_CONST: MeasuredOp(5, 30 - 4 - 5),
    }
    assert found.memory == {"pass_cycles": 2}


@pytest.mark.parametrize("header", ["microbenchmark,cycles", "1,2,3", "short_cycles,a,long_cycles"])
def test_columns_that_are_refused(header: str, tmp_path: Path) -> None:
    results = table_of(tmp_path, header=header)
    new = ("machine", "new", "x", "titan-v")
    done = run_program(*new, results)
    assert "error[PW321]: columns" in done.err
    results.write_bytes(b"\xff\xfe\0")
    done = run_program(*new, results)
    assert "it is not UTF-8 text" in done.err
    results.write_text("")
    assert "PW705" in run_program(*new, results).err


@pytest.mark.parametrize("name", ["titan-v", "", "a b", "a/b", "-x", ".", "x" * 65, "n\nm", "é"])
def test_names_that_are_refused(name: str, tmp_path: Path) -> None:
    done = run_program("machine", "new", "-o", tmp_path / "x", "--", name, "titan-v")
    said = "error[PW320]: name of a machine" if name else "it is empty"
    assert (done.code, said in done.err) == (1 if name else 2, True)


def test_a_file_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new = ("machine", "new", "x", "titan-v")
    assert run_program(*new).code == 0
    assert "PW322" in run_program(*new).err
    assert run_program("machine", "new", "y", "x.toml").code == 0
    assert "copied from x, not measured here; there assumed, copied from titan-v" in (
        load_machine("y.toml").timings[OpClass.INT_ADD].source  # type: ignore[union-attr]
    )
    done = run_program("machine", "new", "x", "x.toml", "-o", "x.toml")
    assert (done.code, "would replace" in done.err) == (2, True)


def test_a_result_without_a_place_is_said(tmp_path: Path) -> None:
    lines = ("atomic_shared_latency,9,249", "atomic_shared_interval,9,249", "pass_cycles,9,777")
    results, target = table_of(tmp_path, *lines), tmp_path / "x.toml"
    new = ("machine", "new", "-o", target, "x")
    done = run_program(*new, "titan-v", results)
    assert (done.code, done.err.count("warning[PW324]")) == (0, 1)
    target.unlink()
    done = run_program(*new, "rtx3070-gpgpusim", results)
    assert "rtx3070-gpgpusim has no table [memory]: pass_cycles left out" in done.err
    assert run_program("machine", "check", target).code == 0


def test_names_of_files_and_machines_cannot_break_the_text(tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    run_program("machine", "new", "x", "titan-v", "-o", first)
    first.write_text(re.sub('name = "x"', r'name = "a\\nb = \\"1"', first.read_text(), count=1))
    results = tmp_path / 'a"\n\x7f.csv'
    results.write_text("\n".join((",".join(COLUMNS), "pass_cycles,9,777", "")))
    new = ("machine", "new", "y", first, results, "-o", second)
    assert run_program(*new).code == 0
    memory = load_machine(str(second)).memory
    assert memory is not None
    assert memory.pass_cycles.source.endswith('microbenchmark pass_cycles, a"\n\x7f.csv')


def test_measuring_writes_all_rounds_but_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(bindings: object, launch: object) -> tuple[object, ...]:
        return np.array([1, 900, 100, 148, 100, 172, 100, 150, 0], np.uint64), None

    monkeypatch.setattr(microbenchmark_runs, "_BUFFER_BYTES", 8)
    monkeypatch.setattr(microbenchmark_runs, "load_bindings", lambda: None)
    monkeypatch.setattr(microbenchmark_runs, "launch_on_gpu", launch)
    target = tmp_path / "results.csv"
    assert run_program("machine", "measure", "-o", target).out.endswith("156 results\n")
    rows = list(csv.reader(target.read_text().splitlines()))
    assert rows[1:4] == [
        ["int_add_latency", "100", "148"],
        ["int_add_latency", "100", "172"],
        ["int_add_latency", "100", "150"],
    ]
    assert len(rows) == 1 + 3 * len(NAMES)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table of results gives the figures, and the row, that it shows."""
    page = PAGE.read_text()
    (table,) = re.findall(r"```csv[^\n]*\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    (tmp_path / "results.csv").write_text(table)
    assert run_program("machine", "new", "my-gpu", "titan-v", "results.csv").code == 0
    launch = ("samples/vector_add.ptx", "--block", "256", "--grid", "4", "--param", "n=1000")
    bounded = run_program(*launch, "--machine", "my-gpu.toml")
    written = (tmp_path / "my-gpu.toml").read_text().splitlines()
    (row,) = (line[4:] for line in page.splitlines() if line.startswith("    fp32_fma = "))
    assert row in written
    machine = load_machine("my-gpu.toml")
    figures = {
        key: (one.initiation_cycles, one.latency_cycles)
        for key in ("int_add", "fp32_fma", "load_global")
        if isinstance(one := machine.timings[OpClass(key)], OpTiming)
    }
    assert figures == {"int_add": (2, 6), "fp32_fma": (2, 6), "load_global": (4, 468)}
    measured = read_results("results.csv").ops
    for key in figures:
        one = measured[OpClass(key)]
        pair = (one.initiation_cycles, one.latency_cycles)
        for what, value in zip(("initiation", "latency"), pair, strict=True):
            assert re.search(rf"^\| `{key}`, {what} \|.* \| {value} \|$", page, re.MULTILINE)
    assert machine.memory is not None
    assert (machine.memory.line_cycles.value, machine.memory_latency_cycles) == (1, 468)
    assert re.search(r"^BOUND .*estimate", bounded.out, re.MULTILINE)
    other = load_machine("my-gpu.toml", 300).timings[OpClass.LOAD_GLOBAL]
    assert isinstance(other, OpTiming)
    assert other.latency_cycles == 300, "--mem-latency still says what global loads take"
