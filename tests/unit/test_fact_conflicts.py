"""Two sources of facts, and facts against the analysis: equal is fine, different names both."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from answers import only_answer, only_refusal
from places import ROOT
from refusals import refusal_of

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

MARKED = ROOT / "tests/data/flow/marked.ptx"
MANDELBROT = ROOT / "samples/mandelbrot.ptx"
SAXPY = ROOT / "samples/saxpy.ptx"
LAUNCH = ROOT / "samples/launches/saxpy.toml"  # n = 1000
N = 1000

CSR = Request(str(MARKED), ("csr",), block="64")
MAN = Request(str(MANDELBROT), block="32x8")
SAX = Request(str(SAXPY), block="256", grid="4")


def with_facts(request: Request, folder: Path, text: str) -> Request:
    digest = hashlib.sha256(Path(request.path).read_bytes()).hexdigest()
    path = folder / "facts.toml"
    path.write_text(f'ptx = "sha256:{digest}"\n{text}\n')
    return replace(request, facts_file=str(path))


def loop(at: str, bound: int, kernel: str) -> str:
    return f'[[loop]]\nkernel = "{kernel}"\nat = "{at}"\nbound = {bound}\n'


def problem(request: Request) -> Diagnostic:
    try:
        row = only_refusal(request)
    except PtxwcetError as error:
        return error.diagnostics[0]
    return row.diagnostics[0]


def answer(request: Request) -> KernelAnalysis:
    return only_answer(request)


def test_option_and_option() -> None:
    """Also by label and by line."""
    two = replace(MAN, loop_bounds=("$L__BB0_2=50", "9=60"))
    found = problem(two)
    assert found.code == "PW215"
    assert "--loop-bound $L__BB0_2=50 says 50, --loop-bound 9=60 says 60" in found.message
    assert answer(replace(MAN, loop_bounds=("$L__BB0_2=50", "9=50")))


def test_option_and_facts_file(tmp_path: Path) -> None:
    request = with_facts(MAN, tmp_path, loop("$L__BB0_2", 50, "mandelbrot"))
    found = problem(replace(request, loop_bounds=("$L__BB0_2=60",)))
    assert found.code == "PW215"
    assert "--loop-bound $L__BB0_2=60 says 60, facts.toml:5 says 50" in found.message
    assert found.span is not None
    assert found.span.line == 5
    row = answer(replace(request, loop_bounds=("$L__BB0_2=50",)))
    assert list(row.facts.loop_bounds.values()) == [50]


def test_facts_file_and_facts_file(tmp_path: Path) -> None:
    text = loop("$L__BB0_2", 50, "mandelbrot") + "[[loop]]\nline = 9\nbound = 60"
    found = problem(with_facts(MAN, tmp_path, text))
    assert "facts.toml:5 says 50, facts.toml:8 says 60" in found.message


def test_option_and_comment() -> None:
    found = problem(replace(CSR, loop_bounds=("$L__BB1_2=60",)))
    assert found.code == "PW215"
    assert "asm comment marked.cu:7 says 64, --loop-bound $L__BB1_2=60 says 60" in found.message
    assert found.span is not None
    assert found.span.source.name.endswith("marked.ptx")
    assert answer(replace(CSR, loop_bounds=("$L__BB1_2=64",)))


def test_facts_file_and_comment(tmp_path: Path) -> None:
    found = problem(with_facts(CSR, tmp_path, loop("$L__BB1_2", 65, "csr")))
    assert found.code == "PW215"
    assert "asm comment marked.cu:7 says 64, facts.toml:5 says 65" in found.message
    assert any("marked.ptx" in note for note in found.notes)
    assert answer(with_facts(CSR, tmp_path, loop("$L__BB1_2", 64, "csr")))


@pytest.mark.parametrize("source", ["option", "file"])
def test_a_bound_below_what_the_analysis_proves(tmp_path: Path, source: str) -> None:
    request = Request(
        str(ROOT / "samples/loops.ptx"), ("loop_up",), block="64", parameters=("n=1000",)
    )
    if source == "option":
        found = problem(replace(request, loop_bounds=("$L__BB0_2=999",)))
        name = "--loop-bound $L__BB0_2=999"
    else:
        found = problem(with_facts(request, tmp_path, loop("$L__BB0_2", 999, "loop_up")))
        name = "facts.toml:5"
    assert found.code == "PW217"
    assert f"{name} says 999 iterations, but the loop runs 1000" in found.message
    row = answer(with_facts(request, tmp_path, loop("$L__BB0_2", 1000, "loop_up")))
    keys = [one.key for one in row.worst.bound.claim.assumptions]
    assert keys == ["alone-on-its-sm", "aligned-pointers"]


def test_a_bound_for_no_loop(tmp_path: Path) -> None:
    found = problem(with_facts(MAN, tmp_path, loop("$L__BB0_3", 5, "mandelbrot")))
    assert found.code == "PW219"
    assert found.span is not None
    assert found.span.line == 5
    assert any("$L__BB0_2" in note for note in found.notes)


# --- parameters -----------------------------------------------------------------------------------


def test_parameter_option_and_option() -> None:
    found = problem(replace(SAX, parameters=("n=1000", "0=1001")))
    assert found.code == "PW215"
    assert "--param n=1000 says 1000, --param 0=1001 says 1001" in found.message
    assert answer(replace(SAX, parameters=("n=1000", "0=1000")))


def test_parameter_option_and_facts_file(tmp_path: Path) -> None:
    request = with_facts(SAX, tmp_path, "[parameters]\nn = 1000")
    assert answer(request).launch.parameters == {"saxpy_param_0": 1000}
    assert answer(replace(request, parameters=("n=1000",)))
    found = problem(replace(request, parameters=("n=1001",)))
    assert found.code == "PW215"
    assert "--param n=1001 says 1001, facts.toml:3 says 1000" in found.message


def test_parameter_option_and_launch_file() -> None:
    request = replace(SAX, block=None, grid=None, launch_file=str(LAUNCH))
    assert answer(replace(request, parameters=(f"n={N}",)))
    for wrong in (f"n={N + 1}", f"n={N + 1}..{N + 9}", "x=3"):
        found = problem(replace(request, parameters=(wrong,)))
        assert found.code == "PW426"
        assert found.message.startswith(f"--param {wrong} contradicts {LAUNCH}:")


def test_parameter_launch_file_and_facts_file(tmp_path: Path) -> None:
    request = replace(SAX, block=None, grid=None, launch_file=str(LAUNCH))
    assert answer(with_facts(request, tmp_path, f"[parameters]\nn = {N}"))
    assert answer(with_facts(request, tmp_path, f'[parameters]\nn = "1..{N}"'))
    found = problem(with_facts(request, tmp_path, f"[parameters]\nn = {N + 1}"))
    assert found.code == "PW426"
    assert f"facts.toml:3 contradicts {LAUNCH}:" in found.message


def test_a_value_outside_of_a_range(tmp_path: Path) -> None:
    request = with_facts(SAX, tmp_path, '[parameters]\nn = "1..500"')
    found = problem(replace(request, parameters=("n=501",)))
    assert found.code == "PW215"
    assert "says 501, facts.toml:3 says 1..500" in found.message
    row = answer(replace(request, parameters=("n=500",)))
    assert (row.launch.parameters, row.launch.ranges) == ({"saxpy_param_0": 500}, {})


@pytest.mark.parametrize(
    ("one", "two", "value"), [("1..9", "9..12", 9), ("7..7", "1..9", 7), ("0x7..9", "1..7", 7)]
)
def test_ranges_are_intersected(one: str, two: str, value: int) -> None:
    row = answer(replace(SAX, parameters=(f"n={one}", f"n={two}")))
    assert row.launch.parameters == {"saxpy_param_0": value}


def test_ranges_without_a_common_value() -> None:
    found = problem(replace(SAX, parameters=("n=1..9", "n=10..12")))
    assert "--param n=1..9 says 1..9, --param n=10..12 says 10..12" in found.message


@pytest.mark.parametrize(
    ("text", "code"),
    [("n=9..1", "PW214"), ("n=1..", "PW214"), ("n=1..2..3", "PW214"), ("a=0.5..1.5", "PW214"),
     ("n=0..4294967296", "PW214"), ("nn=1..2", "PW213")],
)  # fmt: skip
def test_ranges_that_are_refused(text: str, code: str) -> None:
    assert problem(replace(SAX, parameters=(text,))).code == code


def test_a_range_bounds_like_its_worst_value() -> None:
    found = {
        text: answer(replace(SAX, parameters=(text,))).worst.bound
        for text in ("n=1..900", "n=900", "n=1")
    }
    assert found["n=1"].cycles < found["n=900"].cycles <= found["n=1..900"].cycles
    keys = [assumption.key for assumption in found["n=1..900"].claim.assumptions]
    assert keys == ["alone-on-its-sm", "aligned-pointers", "parameter-ranges"]


def test_a_parameter_that_the_kernel_does_not_have(tmp_path: Path) -> None:
    found = problem(with_facts(SAX, tmp_path, "[parameters]\nnn = 3"))
    assert found.code == "PW213"
    assert found.span is not None
    assert found.span.text == "nn = 3"


# --- branches -------------------------------------------------------------------------------------


def test_a_fact_about_no_branch(tmp_path: Path) -> None:
    for at in ("$L__BB0_9", "$L__BB0_3"):
        text = f'[[branch]]\nkernel = "mandelbrot"\nat = "{at}"\nnever = "taken"'
        found = problem(with_facts(MAN, tmp_path, text))
        assert found.code == "PW246"
        assert found.span is not None
        assert found.span.line == 5
        assert any("$L__BB0_2" in note for note in found.notes)


def test_a_branch_to_what_follows_is_none(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(
        """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u32 n)
{
.reg .b32 %r<4>; .reg .pred %p<4>;
ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;
L: ret;
}
"""
    )
    request = Request(str(path), block="64")
    assert problem(with_facts(request, tmp_path, ENTRY_NEVER)).code == "PW246"


ENTRY_NEVER = '[[branch]]\nat = "entry"\nnever = "taken"\n'


@pytest.mark.parametrize("outcome", ["taken", "fallthrough"])
def test_an_outcome_that_the_analysis_proves(tmp_path: Path, outcome: str) -> None:
    """With one iteration the loop's branch is passed, with two it is taken and then passed."""
    file = ROOT / "samples/loops.ptx"
    request = Request(str(file), ("loop_up",), block="64", parameters=("n=2",))
    text = f'[[branch]]\nkernel = "loop_up"\nat = "$L__BB0_2"\nnever = "{outcome}"'
    found = problem(with_facts(request, tmp_path, text))
    assert found.code == "PW217"
    assert found.message.startswith("facts.toml:5 says that this branch is never")
    assert found.span is not None
    assert found.span.source.name == str(file)


def test_exclusive_outcomes_of_which_the_analysis_proves_both(tmp_path: Path) -> None:
    file = ROOT / "samples/loops.ptx"
    request = Request(str(file), ("loop_up",), block="64", parameters=("n=2",))
    both = '[["$L__BB0_2", "taken"], ["$L__BB0_2", "fallthrough"]]'
    text = f'[[exclusive]]\nkernel = "loop_up"\nbranches = {both}'
    found = problem(with_facts(request, tmp_path, text))
    assert found.code == "PW217"
    assert found.message.startswith("facts.toml:4 ")


def test_two_facts_about_one_branch(tmp_path: Path) -> None:
    text = '[[branch]]\nat = "$L__BB0_2"\nnever = "taken"\n'
    found = problem(with_facts(MAN, tmp_path, text + text.replace("taken", "fallthrough")))
    assert found.code == "PW215"
    assert "facts.toml:4 says never taken, facts.toml:7 says never fallthrough" in found.message


def test_an_outcome_that_excludes_itself(tmp_path: Path) -> None:
    text = '[[exclusive]]\nbranches = [["$L__BB0_2", "taken"], ["$L__BB0_2", "taken"]]'
    assert problem(with_facts(MAN, tmp_path, text)).code == "PW246"


@pytest.mark.parametrize(
    ("text", "key", "least"),
    [
        ('[[branch]]\nat = "$L__BB0_2"\nnever = "taken"', "infeasible-branches", 0.0),
        ('[[branch]]\nat = "$L__BB0_2"\nuniform = "warp"', "uniform-branches", 0.9),
        (
            '[[exclusive]]\nbranches = [["$L__BB0_2", "taken"], ["entry", "taken"]]',
            "exclusive-branches",
            0.0,
        ),
    ],
)
def test_facts_about_branches(tmp_path: Path, text: str, key: str, least: float) -> None:
    request = replace(MAN, parameters=("most=50",))
    whole = answer(request).worst.bound.cycles
    bound = answer(with_facts(request, tmp_path, text)).worst.bound
    assert key in [assumption.key for assumption in bound.claim.assumptions]
    assert least * whole < bound.cycles <= whole


def test_executed_paths_take_no_facts(tmp_path: Path) -> None:
    from ptxwcet.commands.bound.executed import bound_executed

    request = replace(SAX, block=None, grid=None, launch_file=str(LAUNCH))
    refusal = refusal_of(bound_executed, with_facts(request, tmp_path, f"[parameters]\nn = {N}"))
    assert refusal.code == "PW427"
    assert "--facts" in refusal.message


def test_a_branch_that_lanes_take_differently_is_not_uniform(tmp_path: Path) -> None:
    reduce = Request(
        str(ROOT / "samples/block_reduce.ptx"),
        ("block_reduce_tree",),
        launch_file=str(ROOT / "samples/launches/block_reduce_tree.toml"),
    )
    text = '[[branch]]\nkernel = "block_reduce_tree"\nat = "$L__BB0_5"\nuniform = "{}"'
    for scope in ("warp", "block"):
        found = problem(with_facts(reduce, tmp_path, text.format(scope)))
        assert found.code == "PW217"
        assert "alike" in found.message
