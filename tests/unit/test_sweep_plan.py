"""Plans of sweeps: which units they make, in which order, and every mistake with its place."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import DOCS
from refusals import refusals_of

from ptxwcet.bounds import methods
from ptxwcet.bounds.methods import METHODS, SAFE
from ptxwcet.opened.opening import read_module
from ptxwcet.support.diagnostics import PtxwcetError, render_all
from ptxwcet.sweeps.sweep_plan import Limits, SweepPlan, read_sweep_plan
from ptxwcet.sweeps.sweep_reading import LIMITS, TABLE_KEYS

pytestmark = pytest.mark.fast

KERNEL = ".visible .entry {name}() {{ ret; }}\n"
HEADER = ".version 8.0\n.target sm_86\n.address_size 64\n"
ONE = '[[sweep]]\nfiles = "k.ptx"\n'
AXES = "[sweep.axes]\n"


def ptx(*names: str) -> str:
    return HEADER + "".join(KERNEL.format(name=name) for name in names)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files beside a plan: k.ptx, two.ptx, five variants, what is no PTX."""
    (tmp_path / "k.ptx").write_text(ptx("k"))
    (tmp_path / "two.ptx").write_text(ptx("first", "second"))
    (tmp_path / "build").mkdir()
    for tm, tn in ((16, 16), (16, 32), (32, 16), (32, 32), (64, 16)):
        (tmp_path / "build" / f"gemm_{tm}x{tn}.ptx").write_text(ptx(f"gemm_{tm}", "other"))
    (tmp_path / "letter.ptx").write_text("a letter\n")
    (tmp_path / "braces{}.ptx").write_text(ptx("k"))
    return tmp_path


def plan_of(folder: Path, text: str) -> SweepPlan:
    path = folder / "sweep.toml"
    path.write_text(text, encoding="utf-8")
    plan = read_sweep_plan(str(path))
    assert plan.count() == sum(1 for _ in plan.units())
    return plan


def rows(plan: SweepPlan) -> list[dict[str, Any]]:
    """Units as what their columns and requests say."""
    units = list(plan.units())
    assert [unit.index for unit in units] == list(range(len(units)))
    return [
        dict(zip(plan.columns, unit.values, strict=True))
        | {key: getattr(unit.request, key) for key in ("block", "grid", "machine", "policy")}
        | {"file": Path(unit.request.path).name, "kernels": unit.request.kernels}
        | {"latency": unit.request.memory_latency_cycles, "table": unit.table}
        for unit in units
    ]


def test_bounds_are_said_of_those_kernels_that_have_the_loop(folder: Path) -> None:
    loop = ".visible .entry {name}() {{ .reg .pred %p;\n{label}:\n@%p bra {label};\nret; }}\n"
    loops = "".join(loop.format(name=name, label=name.upper()) for name in ("one", "two"))
    (folder / "loops.ptx").write_text(HEADER + loops + KERNEL.format(name="none"))
    table = '[[sweep]]\nfiles = "loops.ptx"\nloop_bounds = { ONE = [3, 4], TWO = 5, NO = 6 }\n'
    plan = plan_of(folder, table)
    assert plan.columns == ("loop.ONE",)
    assert [(unit.request.loop_bounds, unit.values) for unit in plan.units()] == [
        *((("ONE=3", "NO=6"), (3,)), (("ONE=4", "NO=6"), (4,))),
        *((("TWO=5", "NO=6"), (None,)), (("TWO=5", "NO=6"), (None,))),
        *((("NO=6",), (None,)), (("NO=6",), (None,))),
    ]
    units = plan_of(folder, table + 'kernels = "none"\n').units()
    assert [len(unit.request.loop_bounds) for unit in units] == [3, 3]


def test_the_least_plan(folder: Path) -> None:
    plan = plan_of(folder, ONE)
    (unit,) = plan.units()
    assert (unit.index, unit.table, unit.values, plan.columns) == (0, 1, (), ())
    assert unit.request.path == str(folder / "k.ptx")
    assert unit.request.kernels == ("k",)
    assert unit.request.machine == "orin-ecrts2025-memory"
    assert (unit.request.block, unit.request.grid, unit.request.parameters) == (None, None, ())
    assert (unit.request.method, unit.request.policy) == ("safe", None)
    assert plan.limits == Limits(None, None)
    assert len(plan.sha256) == 64


def test_all_keys(folder: Path) -> None:
    for name in ("facts_16.toml", "k.cu", "ptxas.txt"):
        (folder / name).write_text("")
    plan = plan_of(
        folder,
        'machines = "titan-v"\nmemory_latency = 300\n'
        "[limits]\nmemory_mib = 4096\nseconds = 600\n"
        + ONE
        + 'kernels = "k"\nblock = "{n}x2"\ngrid = 64\nfacts = "facts_{n}.toml"\nsource = "k.cu"\n'
        'ptxas_info = "ptxas.txt"\nregisters = "{n * 2}"\nresident_blocks = 3\nsms = [4]\n'
        'params = { n = "{n}", x = "1..100", f = 0.5, "a.b" = -1, t = "{kind}" }\n'
        'loop_bounds = { "$L1" = "{n + 1}" }\nmethod = "scheduled"\npolicy = "gto"\n'
        'where = "n > 8"\naxes = { n = [16, 8], kind = "plain" }\n',
    )
    (unit,) = plan.units()
    request = unit.request
    assert plan.limits == Limits(4096, 600)
    assert plan.columns == (
        *("n", "kind"),
        *("param.n", "param.x", "param.f", "param.a.b", "param.t"),
    )
    assert unit.values == (16, "plain", 16, "1..100", "0.5", -1, "plain")
    assert plan.integer_columns() == {"n", "param.n", "param.a.b"}
    assert request.parameters == ("n=16", "x=1..100", "f=0.5", "a.b=-1", "t=plain")
    assert request.loop_bounds == ("$L1=17",)
    assert (request.block, request.grid) == ("16x2", "64")
    assert (request.machine, request.memory_latency_cycles) == ("titan-v", 300)
    assert (request.method, request.policy) == ("scheduled", "gto")
    assert (request.gpu.registers, request.gpu.resident_blocks, request.gpu.sms) == (32, 3, 4)
    assert request.facts_file == str(folder / "facts_16.toml")
    assert request.source == str(folder / "k.cu")
    assert request.ptxas_info == str(folder / "ptxas.txt")


def test_a_row_of_the_registry_is_a_method_of_units(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "METHODS", (*METHODS, replace(SAFE, name="tighter")))
    plan = plan_of(folder, ONE + 'method = ["tighter", "scheduled", "safe"]\npolicy = "gto"\n')
    found = [(unit.request.method, unit.request.policy) for unit in plan.units()]
    assert found == [("tighter", None), ("scheduled", "gto"), ("safe", None)]


def test_the_order_is_that_of_a_product(folder: Path) -> None:
    plan = plan_of(
        folder,
        'machines = ["titan-v", "orin-ecrts2025"]\n'
        '[[sweep]]\nfiles = ["two.ptx", "k.ptx"]\nblock = ["{a}", "{b}x2"]\n'
        "params = { p = { from = 1, to = 5, step = 2 }, q = [1, 2] }\nmemory_latency = [9, 8]\n"
        'method = ["scheduled", "safe"]\npolicy = ["lrr", "gto"]\n'
        + AXES
        + "b = [3, 1]\na = [7, 8]\n",
    )
    files = [("two.ptx", "first"), ("two.ptx", "second"), ("k.ptx", "k")]
    expected = [
        {
            "b": b,
            "a": a,
            "file": file,
            "kernels": (kernel,),
            "block": str(a) if is_first else f"{b}x2",
            "grid": None,
            "param.p": p,
            "param.q": q,
            "latency": latency,
            "machine": machine,
            "policy": policy,
            "table": 1,
        }
        for b, a, (file, kernel), is_first, p, q, latency, machine, policy in itertools.product(
            *([3, 1], [7, 8], files, [True, False], [1, 3, 5], [1, 2], [9, 8]),
            *(["titan-v", "orin-ecrts2025"], ["lrr", "gto", None]),
        )
    ]
    assert rows(plan) == expected
    assert [unit.request.method for unit in itertools.islice(plan.units(), 3)] == [
        "scheduled",
        "scheduled",
        "safe",
    ]


def test_tables_follow_one_another(folder: Path) -> None:
    text = ONE + 'block = "{a}"\n' + AXES + 'a = [1, "x"]\n' + ONE + "params = { n = [1, 2] }\n"
    plan = plan_of(folder, text + ONE + 'block = "{c}"\naxes.c = 3\n')
    assert plan.columns == ("a", "c", "param.n")
    assert [(unit.table, unit.values) for unit in plan.units()] == [
        (1, (1, None, None)),
        (1, ("x", None, None)),
        (2, (None, None, 1)),
        (2, (None, None, 2)),
        (3, (None, 3, None)),
    ]
    assert plan.integer_columns() == {"c", "param.n"}
    assert list(plan.units()) == list(plan.units())


TILES = AXES + "tm = [16, 32, 64]\ntn = [16, 32]\n"


def test_files_and_kernels_by_axes(folder: Path) -> None:
    table = '[[sweep]]\nfiles = "build/gemm_{tm}x{tn}.ptx"\nkernels = "gemm_{tm}"\n'
    plan = plan_of(folder, table + 'where = ["tm * tn < 2048"]\n' + TILES)
    assert [(row["file"], row["kernels"]) for row in rows(plan)] == [
        (f"gemm_{tm}x{tn}.ptx", (f"gemm_{tm}",))
        for tm, tn in ((16, 16), (16, 32), (32, 16), (32, 32), (64, 16))
    ]
    plan = plan_of(
        folder, '[[sweep]]\nfiles = "build/gemm_{tm}x*.ptx"\n' + AXES + "tm = [64, 32]\n"
    )
    assert [(row["file"], *row["kernels"]) for row in rows(plan)] == [
        (f"gemm_{name}.ptx", kernel)
        for name, tm in (("64x16", 64), ("32x16", 32), ("32x32", 32))
        for kernel in (f"gemm_{tm}", "other")
    ]


def test_a_file_that_is_missing_for_a_combination(folder: Path) -> None:
    path = folder / "sweep.toml"
    path.write_text('[[sweep]]\nfiles = "build/gemm_{tm}x{tn}.ptx"\n' + TILES)
    (problem,) = refusals_of(read_sweep_plan, str(path))
    assert problem.code == "PW573"
    assert problem.message == "sweep 1: no file 'build/gemm_64x32.ptx'"
    assert problem.span is not None
    assert problem.span.line == 2


def test_what_conditions_leave_out_may_have_mistakes(folder: Path) -> None:
    text = ONE + 'block = "{100 // a}"\nregisters = "{a}"\nwhere = ["a > 0", "100 // a > 1"]\n'
    assert [row["a"] for row in rows(plan_of(folder, text + AXES + "a = [0, 1, 2, 100]\n"))] == [
        1,
        2,
    ]


def test_conditions_in_any_order(folder: Path) -> None:
    text = ONE + 'block = "{a}x{b}"\n' + AXES + "a = [0, 1, 5]\nb = [0, 2, 5]\n"
    conditions = ["a * b > 0", "10 // a > 2", "10 // b > 2", "a + b < 8"]
    for order in itertools.permutations(conditions):
        plan = plan_of(folder, text.replace("[sweep.axes]", f"where = {list(order)}\n[sweep.axes]"))
        assert [unit.values for unit in plan.units()] == [(1, 2)]


def test_conditions_over_some_of_the_axes(folder: Path) -> None:
    text = ONE + 'block = "{a}x{b}x{c}"\nwhere = ["a < b", "b % 2 == 0"]\n' + AXES
    sizes = "a = { from = 1, to = 4 }\nb = { from = 1, to = 5 }\nc = [1, 2]\n"
    assert [(row["a"], row["b"], row["c"]) for row in rows(plan_of(folder, text + sizes))] == [
        (a, b, c) for a in range(1, 5) for b in (2, 4) if a < b for c in (1, 2)
    ]


def test_files_that_cannot_be_read_are_units(folder: Path) -> None:
    (folder / "none.ptx").write_text(HEADER)
    table = '[[sweep]]\nfiles = ["letter.ptx", "none.ptx", "k.ptx"]\n'
    assert [unit.request.kernels for unit in plan_of(folder, table).units()] == [(), (), ("k",)]
    named = plan_of(folder, table + 'kernels = "k"\n')
    assert [unit.request.kernels for unit in named.units()] == [("k",), ("k",)]


def test_launch_files_say_the_kernel(folder: Path) -> None:
    (folder / "second_1.toml").write_text('kernel = "second"\n')
    (folder / "second_2.toml").write_text("grid = 1\n")
    (folder / "second_3.toml").write_bytes(b"\xff\0")
    table = '[[sweep]]\nfiles = ["two.ptx", "k.ptx"]\nlaunch = "second_{v}.toml"\n' + AXES
    assert [unit.request.kernels for unit in plan_of(folder, table + "v = 1\n").units()] == [
        ("second",),
        (),
    ]
    plan = plan_of(folder, table + "v = [2, 3]\n")
    assert [unit.request.kernels for unit in plan.units()] == [(), ("k",)] * 2
    assert [Path(unit.request.launch_file or "").name for unit in plan.units()] == [
        *["second_2.toml"] * 2,
        *["second_3.toml"] * 2,
    ]


def test_equal_units_are_allowed(folder: Path) -> None:
    plan = plan_of(folder, ONE + 'block = "{cdiv(a, 32)}"\n' + AXES + "a = [31, 32]\n" + ONE + ONE)
    assert len({unit.request for unit in plan.units()}) == 2
    assert plan.count() == 4


def test_braces_and_names_of_files(folder: Path) -> None:
    (unit,) = plan_of(folder, '[[sweep]]\nfiles = "braces{{}}.ptx"\n').units()
    assert Path(unit.request.path).name == "braces{}.ptx"


def test_every_key_with_several_values_is_a_column(folder: Path) -> None:
    (folder / "f.toml").write_text("")
    (folder / "g.toml").write_text("")
    text = ONE + "block = [32, 64]\nregisters = [16, 32]\nsms = 4\nparams = { n = 1 }\n"
    text += 'facts = ["f.toml", "g.toml"]\nloop_bounds = { a = [3, 4], b = 3 }\n'
    plan = plan_of(folder, text)
    assert plan.columns == ("param.n", "set.facts", "set.registers", "loop.a")
    assert plan.integer_columns() == {"param.n", "set.registers", "loop.a"}
    units = [(unit.request.block, *unit.values) for unit in plan.units()]
    assert len(set(units)) == plan.count() == 16


def test_what_tables_do_not_say_alike_is_a_column(folder: Path) -> None:
    one = ONE + "block = 32\nsms = 4\nregisters = 16\nloop_bounds = { a = 3, b = 1 }\n"
    other = ONE + 'block = 32\nsms = 4\nregisters = "{2 * r}"\nloop_bounds = { a = 4 }\n'
    third = ONE + "block = 32\nsms = 4\nregisters = [16, 32]\nloop_bounds = { a = 3, b = 1 }\n"
    plan = plan_of(folder, one + other + AXES + "r = [8, 16]\n" + third)
    assert plan.columns == ("r", "set.registers", "loop.a", "loop.b")
    assert [unit.values for unit in plan.units()] == [
        *((None, 16, 3, 1), (8, 16, 4, None), (16, 32, 4, None)),
        *((None, 16, 3, 1), (None, 32, 3, 1)),
    ]
    assert plan.integer_columns() == set(plan.columns)
    two = plan_of(folder, one + ONE + "block = 32\nregisters = 16\n")
    assert two.columns == ("set.sms", "loop.a", "loop.b")


def test_files_are_parsed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(request: Any) -> Any:
        read.append(Path(request.path).name)
        return read_module(request)

    monkeypatch.setattr("ptxwcet.sweeps.sweep_tables.read_module", noted)
    table = '[[sweep]]\nfiles = "*.ptx"\nblock = "{a}"\n' + AXES + "a = [1, 2, 3]\n"
    plan_of(folder, table + table)
    assert sorted(read) == ["braces{}.ptx", "k.ptx", "letter.ptx", "two.ptx"]


def test_integer_columns(folder: Path) -> None:
    text = (
        ONE
        + 'params = { i = "{i}", t = "{t}", s = "{i} ", e = "{i + 1}", u = 18446744073709551615, '
        + 'm = [1, "{i}"], f = [1, 0.5], r = { from = 0, to = 1 } }\n'
        + AXES
        + 'i = [1, 2]\nt = [1, "x"]\n'
    )
    integers = plan_of(folder, text).integer_columns()
    assert integers == {"i", "param.i", "param.e", "param.m", "param.r"}


def test_a_hundred_thousand_units_need_no_memory(folder: Path) -> None:
    text = ONE + 'block = "{a}"\nparams = { n = { from = 1, to = 1000 } }\n' + AXES
    path = folder / "sweep.toml"
    path.write_text(text + "a = { from = 1, to = 100 }\n")
    plan = read_sweep_plan(str(path))
    peak = 0
    number = -1
    for number, _ in enumerate(plan.units()):
        if number == 80_000:
            tracemalloc.start()
        if number == 90_000:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    assert number + 1 == plan.count() == 100_000
    assert 0 < peak < 50_000


MISTAKES: list[tuple[str, str, str, int | None, str]] = [
    ("", "PW572", "a plan has a table [[sweep]] for each product", None, "for example"),
    ("sweep = 1\n", "PW572", "a plan has a table [[sweep]]", 1, "for example"),
    ("sweep = [1]\n", "PW572", "a plan has a table [[sweep]]", 1, ""),
    ("sweep = []\n", "PW572", "a plan has a table [[sweep]]", 1, ""),
    ("[sweep]\nfiles = 'k.ptx'\n", "PW572", "a plan has a table [[sweep]]", 1, ""),
    ("[[sweep]\n", "PW570", "not TOML", 1, ""),
    (ONE + "block = 1\nblock = 2\n", "PW570", "not TOML", 4, ""),
    ("[[check]]\n" + ONE, "PW571", "unknown key 'check'", 1, "known: machines"),
    ("machine = 'x'\n" + ONE, "PW571", "unknown key 'machine'", 1, "did you mean machines?"),
    (ONE + "blocks = 1\n", "PW571", "sweep 1: unknown key 'blocks'", 3, "did you mean block?"),
    (ONE + "budget = 1\n", "PW571", "sweep 1: unknown key 'budget'", 3, "known: files"),
    ("[limits]\nsecond = 1\n" + ONE, "PW571", "unknown key 'second'", 2, "mean seconds?"),
    ("[limits]\nseconds = 0\n" + ONE, "PW572", "seconds is a whole number from 1", 2, ""),
    ("[limits]\nseconds = true\n" + ONE, "PW572", "seconds is a whole number from 1", 2, ""),
    ("[limits]\nmemory_mib = 1.5\n" + ONE, "PW572", "memory_mib is a whole number", 2, ""),
    ("limits = 3\n" + ONE, "PW572", "limits is a table", 1, ""),
    ("[[sweep]]\nblock = 1\n", "PW572", "sweep 1: files is missing", 1, "for example"),
    ("[[sweep]]\nfiles = []\n", "PW810", "files has no values: the list is empty", 2, ""),
    ("[[sweep]]\nfiles = ''\n", "PW572", "files is a text or a list of texts", 2, ""),
    ("[[sweep]]\nfiles = [['k.ptx']]\n", "PW572", "files is a text or a list of texts", 2, ""),
    ("[[sweep]]\nfiles = { from = 1, to = 2 }\n", "PW572", "files is a text or a list", 2, ""),
    ("[[sweep]]\nfiles = 'none/*.ptx'\n", "PW573", "no file matches 'none/*.ptx'", 2, "relative"),
    ("[[sweep]]\nfiles = 'gone.ptx'\n", "PW573", "no file 'gone.ptx'", 2, "relative to"),
    ("[[sweep]]\nfiles = 'build'\n", "PW573", "no file 'build'", 2, ""),
    ('[[sweep]]\nfiles = "a\\u0000*"\n', "PW573", "no file matches", 2, ""),
    (f"[[sweep]]\nfiles = '{'a' * 4000}'\n", "PW573", "no file 'aaa", 2, ""),
    (f"[[sweep]]\nfiles = '{{a}}{'a' * 5000}'\n", "PW811", "more than 4,096", 2, ""),
    (ONE + "facts = 'gone.toml'\n", "PW573", "no file 'gone.toml'", 3, ""),
    (ONE + "facts = ['k.ptx', 'gone']\n", "PW573", "no file 'gone'", 3, ""),
    (ONE + "launch = 'gone.toml'\n", "PW573", "no file 'gone.toml'", 3, ""),
    (ONE + "source = 3\n", "PW572", "source is a text", 3, ""),
    (ONE + "kernels = 'kk'\n", "PW208", "no file of this sweep has a kernel 'kk'", 3, "mean k?"),
    (ONE + "kernels = []\n", "PW810", "kernels has no values", 3, ""),
    (ONE + "machines = 'orin'\n", "PW301", "no machine 'orin'", 3, "known machines: a100"),
    ("machines = 'orin'\n" + ONE, "PW301", "no machine 'orin'", 1, "known machines: a100"),
    ("machines = 3\n" + ONE, "PW572", "machines is a text or a list of texts", 1, ""),
    (ONE + "machines = 'k.ptx'\n", "PW303", "not TOML", 1, ""),
    (ONE + "block = true\n", "PW572", "block is a text, a whole number", 3, ""),
    (ONE + "block = [1, [2]]\n", "PW572", "block is a text, a whole number", 3, ""),
    (ONE + "block = nan\n", "PW572", "block is a text, a whole number", 3, ""),
    (ONE + "block = 2026-11-24\n", "PW572", "block is a text, a whole number", 3, ""),
    (ONE + "block = { x = 1 }\n", "PW571", "a range has from, to and step, not 'x'", 3, ""),
    (ONE + "grid = 1.0\n", "PW572", "grid is a text, a whole number", 3, ""),
    (ONE + "registers = 0\n", "PW572", "registers is a whole number from 1 to 1,024", 3, ""),
    (ONE + "registers = '64'\n", "PW572", "registers is a whole number", 3, ""),
    (ONE + "registers = { from = 1, to = 2000 }\n", "PW572", "registers is a whole number", 3, ""),
    (ONE + "sms = 1025\n", "PW572", "sms is a whole number from 1 to 1,024", 3, ""),
    (ONE + "memory_latency = 0\n", "PW572", "memory_latency is a whole number from 1 to", 3, ""),
    (ONE + "memory_latency = []\n", "PW810", "memory_latency has no values", 3, ""),
    ("memory_latency = 'x'\n" + ONE, "PW572", "memory_latency is a whole number", 1, ""),
    (ONE + "method = 'gub'\n", "PW572", "method is 'safe'", 3, ""),
    (ONE + "method = 'scheduled'\n", "PW572", "needs to know the scheduling policy", 3, "policy"),
    ("method = 'scheduled'\n" + ONE, "PW572", "needs to know the scheduling", 1, "policy ="),
    (ONE + "policy = 'gto'\n", "PW572", "a policy says nothing here", 3, "method ="),
    ("policy = 'gto'\n" + ONE, "PW572", "a policy says nothing here", 1, "method ="),
    (ONE + "policy = 'fair'\nmethod = 'scheduled'\n", "PW572", "policy is 'lrr', 'gto'", 3, ""),
    (ONE + "params = 3\n", "PW572", "params is a table", 3, ""),
    (ONE + "params = [{ n = 1 }]\n", "PW572", "params is a table", 3, ""),
    (ONE + "params = { n = true }\n", "PW572", "'n' of params is a number or a text", 3, ""),
    (ONE + "params = { n = nan }\n", "PW572", "'n' of params is a number or a text", 3, ""),
    (ONE + "params = { n = [1, inf] }\n", "PW572", "'n' of params is a number", 3, ""),
    (ONE + "params = { n = [[1]] }\n", "PW572", "'n' of params is a number", 3, ""),
    (ONE + "params = { n = 10:00:00 }\n", "PW572", "'n' of params is a number", 3, ""),
    (ONE + "params = { n = 18446744073709551616 }\n", "PW572", "'n' of params is a number", 3, ""),
    (ONE + "params = { n = [] }\n", "PW810", "'n' of params has no values", 3, ""),
    (ONE + "params = { '' = 1 }\n", "PW572", "'' of params is no name", 3, ""),
    (ONE + "params = { 'a=b' = 1 }\n", "PW572", "'a=b' of params is no name", 3, ""),
    (ONE + "[sweep.params]\nm = 1\nn = []\n", "PW810", "'n' of params has no values", 5, ""),
    (ONE + "params.n = []\n", "PW810", "'n' of params has no values", 3, ""),
    (ONE + "loop_bounds = { L = {} }\n", "PW572", "from of a range is a whole number", 3, ""),
    (ONE + "axes = 3\n", "PW572", "axes is a table", 3, ""),
    (ONE + AXES + "a = []\n", "PW810", "axis a has no values: the list is empty", 4, ""),
    (ONE + AXES + "a = { from = 2, to = 1 }\n", "PW810", "it is from 2 to 1", 4, ""),
    (ONE + AXES + "a = { from = 1, to = 2, step = 0 }\n", "PW810", "its step is 0", 4, ""),
    (ONE + AXES + "a = { from = 2, to = 1, step = -1 }\n", "PW810", "its step is -1", 4, ""),
    (ONE + AXES + "a = { from = 1 }\n", "PW572", "to of a range is a whole number", 4, ""),
    (ONE + AXES + "a = { from = 1.0, to = 2 }\n", "PW572", "from of a range is a whole", 4, ""),
    (ONE + AXES + "a = { from = 1, to = 2, by = 1 }\n", "PW571", "not 'by'", 4, ""),
    (ONE + AXES + "a = { from = 1, to = 1000001 }\n", "PW572", "more than 1,000,000", 4, ""),
    (ONE + AXES + "a = { from = 1, to = 99999999999999999999 }\n", "PW572", "64 bits", 4, ""),
    (ONE + AXES + "a = [" + "1," * 10_001 + "]\n", "PW572", "more than 10,000 values", 4, ""),
    (ONE + AXES + "a = [1, true]\n", "PW572", "axis a has values that are not whole", 4, ""),
    (ONE + AXES + "a = [1.5]\n", "PW572", "axis a has values that are not whole", 4, ""),
    (ONE + AXES + "a = [['x']]\n", "PW572", "axis a has values that are not whole", 4, ""),
    (ONE + AXES + "a = ['']\n", "PW572", "axis a has values that are not whole", 4, ""),
    (ONE + AXES + "a = 9223372036854775808\n", "PW572", "axis a has values that", 4, ""),
    (ONE + AXES + "block = [1]\n", "PW572", "'block' cannot name an axis: it is a column", 4, ""),
    (ONE + AXES + "min = [1]\n", "PW572", "'min' cannot name an axis: it is a function", 4, ""),
    (ONE + AXES + "lambda = [1]\n", "PW572", "'lambda' cannot name an axis", 4, ""),
    (ONE + AXES + "'a.b' = [1]\n", "PW572", "'a.b' cannot name an axis", 4, ""),
    (ONE + AXES + "a-b = [1]\n", "PW572", "'a-b' cannot name an axis", 4, ""),
    (ONE + AXES + "a.b = [1]\n", "PW571", "a range has from, to and step, not 'b'", 3, ""),
    (ONE + AXES + "a = [1]\n", "PW572", "axis a is in no template", 4, "write {a} where"),
    (ONE + "where = 'a < 3'\n" + AXES + "a = 1\n", "PW572", "axis a is in no template", 5, ""),
    (
        ONE + "block = '{tile}'\n" + AXES + "tiles = 1\n",
        "PW811",
        "no axis 'tile'",
        3,
        "mean tiles?",
    ),
    (ONE + "block = '{n}'\nparams = { n = [1] }\n", "PW811", "no axis 'n'", 3, "make it an axis"),
    (ONE + "where = 'b < 3'\n", "PW811", "where: no axis 'b'", 3, "the axes are: none"),
    (ONE + "where = 3\n", "PW572", "where is a text or a list of texts", 3, ""),
    (ONE + "where = '3'\n", "PW811", "where: not a condition", 3, "a condition compares"),
    (ONE + "where = '1 < 0'\n", "PW572", "where leaves out all of 1 combinations", 3, "loosen"),
    (ONE + "where = '1 < 1 // 0'\n", "PW811", "where: 1 is divided by zero", 3, ""),
    (ONE + "block = '{'\n", "PW811", "block: a { that is not closed", 3, "write {{ for one {"),
    (ONE + "block = '}'\n", "PW811", "block: a } that closes nothing", 3, "write }} for one }"),
    (ONE + "block = '{}'\n", "PW811", "block: an expression is empty", 3, ""),
    (ONE + "block = '{10 ** 10}'\n", "PW811", "block: '**' means nothing here", 3, "no power"),
    (ONE + "block = '{1 / 2}'\n", "PW811", "block: '/' means nothing here", 3, "write //"),
    (ONE + "block = '{1 // 0}'\n", "PW811", "block: 1 is divided by zero", 3, ""),
    (ONE + "params = { n = '{x}' }\n", "PW811", "params.n: no axis 'x'", 3, ""),
    (ONE + "[sweep.loop_bounds]\nL = '{x}'\n", "PW811", "loop_bounds.L: no axis 'x'", 4, ""),
    (
        ONE + "block = '{8 // (a - 2)}'\n" + AXES + "a = [1, 2]\n",
        *("PW811", "block: 8 is divided by zero, for a = 2", 3, ""),
    ),
    (
        ONE + "registers = '{a}'\n" + AXES + "a = [1, 0]\n",
        *("PW572", "registers is a whole number from 1 to 1,024, for a = 0", 3, ""),
    ),
    (
        ONE + "memory_latency = ['{a}', 3]\n" + AXES + "a = [1, 'x']\n",
        *("PW572", "memory_latency is a whole number from 1 to 1,000,000, for a = x", 3, ""),
    ),
    (
        ONE + "block = '{a + 1}'\n" + AXES + "a = [1, 'x']\n",
        *("PW811", "block: a is the text 'x', and expressions are of integers, for a = x", 3, ""),
    ),
]


@pytest.mark.parametrize(("text", "code", "message", "line", "remedy"), MISTAKES)
def test_mistakes(
    text: str, code: str, message: str, line: int | None, remedy: str, folder: Path
) -> None:
    path = folder / "sweep.toml"
    path.write_text(text)
    found = refusals_of(read_sweep_plan, str(path))
    assert [problem.code for problem in found] == [code], render_all(found)
    assert message in found[0].message
    assert (None if found[0].span is None else found[0].span.line) == line
    assert remedy in (found[0].help or "")
    assert render_all(found)


def test_the_place_in_a_text(folder: Path) -> None:
    path = folder / "sweep.toml"
    path.write_text(
        ONE + 'grid = "{x}"\nblock = [\n  "{a}",\n  "{a}x{cdiv(a, b)}",\n]\naxes.a = 1\n'
    )
    found = refusals_of(read_sweep_plan, str(path))
    assert [(one.span.line, one.span.text) for one in found if one.span] == [(6, "b"), (3, "x")]


def test_tables_on_one_line_have_no_places(folder: Path) -> None:
    path = folder / "sweep.toml"
    path.write_text("sweep = [{ files = 'k.ptx', block = '{a}', blocks = 1, axes = { b = [] } }]\n")
    found = refusals_of(read_sweep_plan, str(path))
    assert [(one.code, one.span) for one in found] == [
        ("PW571", None),
        ("PW810", None),
        ("PW811", None),
    ]
    assert all(one.message.startswith(f"{path}: sweep 1: ") for one in found)
    assert "(in '{a}', character 2)" in found[-1].message


def test_all_mistakes_at_once(folder: Path) -> None:
    path = folder / "sweep.toml"
    path.write_text(
        "machine = 1\n" + ONE + "blocks = 1\nregisters = 0\nwhere = '1'\n" + ONE + "block = '{'\n"
    )
    found = refusals_of(read_sweep_plan, str(path))
    assert sorted(one.code for one in found) == ["PW571", "PW571", "PW572", "PW811", "PW811"]
    path.write_text(
        "machines = 'none'\n" + ONE + "kernels = 'x'\nfacts = 'gone'\n" + ONE + "where = '1 < 0'\n"
    )
    found = refusals_of(read_sweep_plan, str(path))
    assert sorted(one.code for one in found) == ["PW208", "PW301", "PW572", "PW573"]


def test_places_of_tables_with_and_without_axes(folder: Path) -> None:
    path = folder / "sweep.toml"
    path.write_text(
        ONE + ONE + "block = '{a}'\n" + AXES + "a = 1\n" + ONE + ONE + AXES + "a = [1]\nb = []\n"
    )
    (problem,) = refusals_of(read_sweep_plan, str(path))
    assert (problem.code, problem.span and problem.span.line) == ("PW810", 14)


@pytest.mark.parametrize("data", [b"\xff\xfe\0", b"\0" * 100, b"\x7fELF", b"files = '\xe9'"])
def test_what_is_no_text(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_bytes(data)
    assert {one.code for one in refusals_of(read_sweep_plan, str(path))} == {"PW570"}
    assert {one.code for one in refusals_of(read_sweep_plan, str(tmp_path))} == {"PW570"}
    assert {one.code for one in refusals_of(read_sweep_plan, str(tmp_path / "x"))} == {"PW570"}


def test_too_many(folder: Path) -> None:
    path = folder / "sweep.toml"
    thousand = "{ from = 1, to = 1000 }"
    axes = "".join(f"a{n} = {thousand}\n" for n in range(3))
    path.write_text(ONE + 'block = "{a0}x{a1}x{a2}"\n' + AXES + axes)
    (problem,) = refusals_of(read_sweep_plan, str(path))
    assert "more than 10,000,000 combinations of axes" in problem.message
    used = ", ".join(f'a{n} = "{{a{n}}}"' for n in range(32))
    for count, message in ((32, "combinations of axes"), (33, "more than 32 axes")):
        axes = "".join(f"a{n} = {thousand}\n" for n in range(count))
        path.write_text(ONE + f"params = {{ {used} }}\n{AXES}{axes}")
        assert message in refusals_of(read_sweep_plan, str(path))[0].message
    params = ", ".join(f"a{n} = {thousand}" for n in range(3))
    path.write_text(ONE + f"params = {{ {params} }}\n")
    (problem,) = refusals_of(read_sweep_plan, str(path))
    assert problem.message == "sweep 1: more than 10,000,000 units"
    path.write_text(ONE + "params = { " + ", ".join(f"p{n} = 1" for n in range(1001)) + " }\n")
    (problem,) = refusals_of(read_sweep_plan, str(path))
    assert "more than 1,000 names" in problem.message


def test_many_missing_files_are_a_hundred_problems(folder: Path) -> None:
    path = folder / "sweep.toml"
    path.write_text(
        '[[sweep]]\nfiles = "{a}_{b}.ptx"\n' + AXES + "a = { from = 1, to = 1000 }\n"
        "b = { from = 1, to = 1000 }\n"
    )
    assert len(refusals_of(read_sweep_plan, str(path))) == 100


def test_kernels_that_only_some_files_have(folder: Path) -> None:
    table = '[[sweep]]\nfiles = "build/gemm_{tm}x16.ptx"\n' + 'kernels = ["gemm_16", "other"]\n'
    plan = plan_of(folder, table + AXES + "tm = [16, 32]\n")
    assert [unit.request.kernels[0] for unit in plan.units()] == ["gemm_16", "other", "other"]


PIECES = (
    *('"', "'", "[", "]", "=", "0", "{", "}", "\n", "x", ",", "[[sweep]]\n", "[sweep.axes]\n"),
    *("nan", "true", "{a}", "2026-11-24", "-1", "1e9", '"""', "\\", "\0", "é", "[]", "{}"),
)


@pytest.mark.parametrize("seed", range(5))
def test_damaged_plans_give_units_or_diagnostics(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    text = (
        'machines = ["titan-v"]\n[limits]\nseconds = 600\n'
        + ONE
        + 'block = "{a}x{cdiv(b, 2)}"\ngrid = [1, "{a}"]\nparams = { n = [1, 2], m = "{b}" }\n'
        'method = ["safe", "scheduled"]\npolicy = "gto"\nwhere = ["a * b <= 8", "a != 3"]\n'
        + AXES
        + "a = [1, 2, 4]\nb = { from = 2, to = 8, step = 2 }\n"
    )
    path = folder / "sweep.toml"
    codes: set[str] = set()
    for _ in range(100):
        damaged = text
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(damaged))
            damaged = damaged[:place] + rng.choice(PIECES) + damaged[place + rng.randrange(3) :]
        path.write_text(damaged, encoding="utf-8")
        try:
            plan = read_sweep_plan(str(path))
        except PtxwcetError as error:
            codes.update(one.code for one in error.diagnostics)
            render_all(error.diagnostics)
            continue
        assert sum(1 for _ in plan.units()) == plan.count() > 0
    assert codes <= {*["PW208", "PW301", "PW570", "PW571", "PW572", "PW573", "PW810", "PW811"]}


def test_the_example_of_the_docs(folder: Path) -> None:
    page = (DOCS / "plans.md").read_text(encoding="utf-8")
    for tm, tn in itertools.product((16, 32, 64), repeat=2):
        if tm * tn <= 2048:
            (folder / "build" / f"sgemm_{tm}x{tn}.ptx").write_text(ptx("sgemm"))
    plan = plan_of(folder, page.partition("```toml\n")[2].partition("```")[0])
    tiles, sizes = 8, 7
    assert plan.count() == tiles * sizes * 4 * 2 * 2 * 2 * 3
    assert plan.columns == ("tm", "tn", "m", "n", "param.m", "param.n", "param.k", "param.alpha")
    assert plan.integer_columns() == set(plan.columns)
    known = {*TABLE_KEYS, *LIMITS, "limits"}
    assert {key for key in known if f"`{key}`" not in page and f"\n{key} = " not in page} == {
        "limits"
    }
    assert "[limits]" in page
