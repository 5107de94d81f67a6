"""Facts that are true of executions: none is refused, raises a bound, or lowers it below a run."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from answers import only_answer, only_refusal
from observed_facts import Observed, labels, together
from parsing import parse_text
from places import ROOT, UNSOUND
from refusals import refusal_of
from true_facts import Case, problems_of, suite_problems

from ptxwcet.commands.bound.executed import bound_executed
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.run.study import prepare_executed
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.facts.stated import (
    NO_FACTS,
    BranchFact,
    ExclusiveFact,
    FactSource,
    LoopFact,
    Place,
    StatedFacts,
)
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.opening import RefusedKernel
from ptxwcet.opened.request import Request
from ptxwcet.pipeline import analyse_kernel, analyse_prepared, build_flow
from ptxwcet.support.diagnostics import PtxwcetError

MACHINE = load_machine("orin-ecrts2025")
TEST = FactSource("a test")


def cycles(request: Request) -> int:
    row = only_answer(request)
    return row.worst.bound.cycles


def code(request: Request) -> str:
    try:
        row = only_refusal(request)
    except PtxwcetError as error:
        return error.diagnostics[0].code
    return row.diagnostics[0].code


def code_or_none(request: Request) -> str | None:
    """The code of a refusal; None for a bound."""
    try:
        (row,) = bound_file(request).kernels
    except PtxwcetError as error:
        return error.diagnostics[0].code
    return row.diagnostics[0].code if isinstance(row, RefusedKernel) else None


# --- cases that were bounded below a run, or above the bound for less knowledge -------------------

EXCLUSIVE = str(UNSOUND / "exclusive_dropped.ptx")
FACTS = str(UNSOUND / "exclusive_dropped.facts.toml")


def test_a_side_that_a_fact_excludes_does_not_take_the_others_with_it() -> None:
    launched = Request(EXCLUSIVE, launch_file=str(UNSOUND / "exclusive_dropped.toml"))
    (run,) = bound_executed(launched).answered
    bound = cycles(Request(EXCLUSIVE, block="32", facts_file=FACTS))
    assert run.worst.bound.cycles <= bound
    assert bound < cycles(Request(EXCLUSIVE, block="32", parameters=("2=1000",)))


def test_one_more_pair_of_exclusive_outcomes_does_not_raise_a_bound() -> None:
    request = Request(str(UNSOUND / "worse_exclusive.ptx"), block="4")
    without = cycles(replace(request, facts_file=str(UNSOUND / "worse_without.facts.toml")))
    assert cycles(replace(request, facts_file=str(UNSOUND / "worse_with.facts.toml"))) <= without


def test_the_order_of_bounds_follows_the_order_of_knowledge() -> None:
    """The filter has few kinds of blocks with a grid, and is one kind without."""
    request = Request(
        str(UNSOUND / "fir.ptx"),
        block="256",
        parameters=("2=1048576", "3=1..64"),
        machine="orin-ecrts2025",
    )
    ranged = cycles(request)
    assert ranged < 21_000
    assert cycles(replace(request, grid="4096")) <= ranged
    fixed = replace(request, parameters=("2=1048576", "3=64"))
    assert cycles(replace(fixed, grid="4096")) <= cycles(fixed) <= ranged


# --- lines ----------------------------------------------------------------------------------------

ROWS = Request(
    str(UNSOUND / "line_of_inner.ptx"), ("k",), launch_file=str(UNSOUND / "line_of_inner.toml")
)


def test_a_line_is_that_of_the_control_of_a_loop() -> None:
    """Line 7 is the inner loop's; the outer loop has instructions of it in its first block."""
    assert code(replace(ROWS, loop_bounds=("7=8",))) == "PW203"
    (run,) = bound_executed(ROWS).answered
    by_line, by_label = ("7=8", "line_of_inner.cu:11=102"), ("$L__BB0_14=8", "$L__BB0_1=102")
    bound = cycles(replace(ROWS, loop_bounds=by_line))
    assert run.worst.bound.cycles <= bound == cycles(replace(ROWS, loop_bounds=by_label))


@pytest.mark.parametrize(
    ("kernel", "place"), [("unrolled", "18"), ("k", "8"), ("k", "other.cu:7"), ("k", "99999")]
)
def test_a_line_without_a_loop_is_refused(kernel: str, place: str) -> None:
    """Line 18 is a loop that was unrolled inside of another."""
    request = Request(str(UNSOUND / "line_of_inner.ptx"), (kernel,), block="32")
    assert code(replace(request, loop_bounds=(f"{place}=4",))) == "PW219"


def test_a_line_with_two_loops_is_refused_with_both() -> None:
    row = only_refusal(Request(str(UNSOUND / "fir.ptx"), block="32", loop_bounds=("8=4",)))
    notes = " ".join(row.diagnostics[0].notes)
    assert row.diagnostics[0].code == "PW219"
    assert "$L__BB0_4" in notes
    assert "$L__BB0_15" in notes


INLINED = """.version 8.0
.target sm_80
.address_size 64
.file 1 "k.cu"
.file 2 "f.cuh"
.visible .entry k(.param .u64 data)
{{
.reg .b32 %r<4>; .reg .pred %p<3>; .reg .b64 %d;
.loc 1 3 1
ld.param.u64 %d, [data];
L:
.loc {body}
ld.global.u32 %r1, [%d];
add.u64 %d, %d, 4;
setp.ne.u32 %p1, %r1, 0;
{early}
.loc {control}
@%p1 bra L;
ret;
$name:
}}
""".replace("$name:\n", "")
CALL = ", function_name $L__info0, inlined_at 1 12 3"
INFO = "\n.section .debug_str\n{\n$L__info0:\n.b8 102, 0\n}\n"


@pytest.mark.parametrize(
    ("body", "control", "early", "place", "found"),
    [
        ("1 9 1", "1 9 1", "", "9", True),
        ("1 9 1", "1 9 1", "", "k.cu:9", True),
        ("1 9 1", "1 9 1", "", "f.cuh:9", False),
        ("2 30 1" + CALL, "2 30 1" + CALL, "", "f.cuh:30", True),
        ("2 30 1" + CALL, "2 30 1" + CALL, "", "30", False),  # of the file of the kernel
        ("2 30 1" + CALL, "2 30 1" + CALL, "", "12", False),  # the loop around the call, if any
        ("1 13 1", "2 30 1" + CALL, "", "f.cuh:30", False),  # a loop of f, unrolled in a test
        ("1 13 1", "2 30 1" + CALL, "", "12", False),
        ("1 9 1", "1 8 1", ".loc 1 8 5\n@!%p1 bra M;", "8", False),  # unrolled tests of line 8
        ("1 9 1", "1 8 1", ".loc 1 9 5\n@!%p1 bra M;", "8", True),
        ("1 9 1", "1 0 1", "", "9", False),
    ],
)
def test_lines_of_files_and_inlined_functions(
    body: str, control: str, early: str, place: str, found: bool, tmp_path: Path
) -> None:
    text = INLINED.format(body=body, control=control, early=early)
    if early:
        text = text.replace("ret;", "M:\nret;")
    path = tmp_path / "k.ptx"
    path.write_text(text + (INFO if "function_name" in text else ""))
    request = Request(str(path), block="32", loop_bounds=(f"{place}=4",))
    if found:
        assert cycles(request)
    else:
        assert code(request) == "PW219"


# --- facts of random kernels ----------------------------------------------------------------------


def test_facts_taken_from_executions() -> None:
    counts = Counter[str]()
    problems = [text for seed in (1, 2, 3) for text in problems_of(seed, counts)]
    assert problems == []
    assert counts["facts by comment"] > 0


def test_facts_about_launches() -> None:
    """The grid, the value and a range of a parameter: of a launch and of its blocks."""
    counts = Counter[str]()
    problems = [text for seed in (4, 6) for text in problems_of(seed, counts, blocks=3)]
    assert problems == []
    assert counts["launches bounded at last"] == 2


def test_a_true_bound_of_a_loop_raises_nothing() -> None:
    """It would, if it were not left out together with another fact (1,355 to 1,373 cycles)."""
    case = Case.of(20074)
    source, outcome = FactSource("observed"), Place("block 2")
    branches = (BranchFact(outcome, source, never=True),)
    exclusive = (ExclusiveFact(((outcome, True), (Place("L6"), False)), source),)
    before = StatedFacts(branches=branches, exclusive=exclusive)
    after = replace(before, loops=(LoopFact(Place("L1"), source, bound=3),))
    bounds = [
        analyse_kernel(case.kernel, case.launch, MACHINE, facts).worst.bound.cycles
        for facts in (before, after)
    ]
    assert bounds[0] >= bounds[1]


@pytest.mark.thorough
def test_facts_about_a_function_that_is_called_twice() -> None:
    """By the label of each copy; a comment is in both of them."""
    counts = Counter[str]()
    assert list(problems_of(40002, counts, twice=True)) == []
    assert counts["kernels"] == 1
    assert counts["facts by comment"] > 0


@pytest.mark.every(6)
@pytest.mark.parametrize(
    ("folder", "file", "launch"),
    [
        ("samples", "mandelbrot", "mandelbrot"),
        ("samples", "loops", "loop_break"),
        ("benchmarks/kernels/suite", "various", "collatz"),
    ],
)
def test_facts_taken_from_compiled_kernels(folder: str, file: str, launch: str) -> None:
    counts = Counter[str]()
    path = ROOT / folder
    files = [(path / f"{file}.ptx", path / f"launches/{launch}.toml")]
    assert list(suite_problems(counts, files)) == []
    assert counts["kernels"] == 1


# --- kernels by hand ------------------------------------------------------------------------------

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 n)
{
.reg .b32 %r<20>; .reg .pred %p<20>; .reg .b64 %d<9>; .reg .f32 %f<4>;
ld.param.u64 %d1, [data];
mov.u32 %r1, %tid.x;
mov.f32 %f1, 0f3F800001;
ld.global.u32 %r2, [%d1];
ld.global.u32 %r3, [%d1+4];
mul.wide.u32 %d2, %r1, 4;
add.u64 %d2, %d1, %d2;
ld.global.u32 %r4, [%d2+64];
"""
LONG = """mov.u32 %r9, 0;
{0}:
div.rn.f32 %f1, %f1, %f1;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p9, %r9, {1};
@%p9 bra {0};
"""


class Kernel:
    """A kernel of a body that is executed on words: 0 and 1 for all lanes, 16 on one a lane."""

    def __init__(self, body: str, threads: int = 32, n: int = 3) -> None:
        self.module = parse_text(HEAD + body + "ret;\n}\n")
        self.launch = Launch((threads, 1, 1), (1, 1, 1), {"n": n})

    def bound(self, facts: StatedFacts = NO_FACTS) -> int:
        analysis = analyse_kernel(self.module.kernels[0], self.launch, MACHINE, facts)
        return analysis.worst.bound.cycles

    def code(self, facts: StatedFacts) -> str:
        return refusal_of(self.bound, facts).code

    def executed(self, *words: int) -> int:
        data = np.zeros(64, "u4")
        data[: len(words)] = words
        launch = EmulatedLaunch(self.launch.block, (1, 1, 1), (data, self.launch.parameters["n"]))
        options = EmulatorOptions(record_paths=True)
        run = execute(self.module.kernels[0], self.module, launch, options=options)
        assert run.is_complete
        prepared = prepare_executed(run, self.launch, MACHINE)
        return analyse_prepared(prepared).worst.bound.cycles


def never(label: str, way: bool) -> StatedFacts:
    return StatedFacts(branches=(BranchFact(Place(label), TEST, never=way),))


def exclusive(one: tuple[str, bool], two: tuple[str, bool]) -> StatedFacts:
    both = (Place(one[0]), one[1]), (Place(two[0]), two[1])
    return StatedFacts(exclusive=(ExclusiveFact(both, TEST),))


def bounded(label: str, most: int) -> StatedFacts:
    return StatedFacts(loops=(LoopFact(Place(label), TEST, bound=most),))


# an open side (taken by all of a warp, or by each lane on its own) with a decided branch in it
INNER = """setp.eq.u32 %p1, {word}, 1;
@!%p1 bra M;
A: setp.gt.u32 %p2, %r1, 99;
@%p2 bra M;
div.rn.f32 %f1, %f1, %f1;
M: setp.eq.u32 %p3, {word}, 2;
@!%p3 bra E;
""" + LONG.format("L", 50) + "E:\n"  # fmt: skip


@pytest.mark.parametrize("word", ["%r2", "%r4"])
def test_never_on_a_branch_that_only_an_open_side_reaches(word: str) -> None:
    kernel = Kernel(INNER.format(word=word))
    bound = kernel.bound(never("A", False))  # true of runs that do not come there
    assert kernel.executed(2, 0, *[2] * 62) <= bound < kernel.bound()
    both = together((never("A", False), never("entry", True)))
    assert kernel.code(both) == "PW217"


@pytest.mark.parametrize("word", ["%r2", "%r4"])
def test_exclusive_sides_of_which_one_is_reached_on_an_open_side(word: str) -> None:
    kernel = Kernel(INNER.format(word=word))
    bound = kernel.bound(exclusive(("A", False), ("M", False)))
    assert kernel.executed(2, 0, *[2] * 62) <= bound <= kernel.bound()
    assert kernel.executed(1, 0, *[1] * 62) <= bound


def test_exclusive_sides_within_a_loop() -> None:
    """In each iteration one of two jobs, the same in all: never both in a run."""
    body = """mov.u32 %r8, 0;
H: setp.eq.u32 %p1, %r2, 1;
@!%p1 bra M;
A: setp.gt.u32 %p2, %r1, 99;
@%p2 bra M;
div.rn.f32 %f1, %f1, %f1;
M: setp.eq.u32 %p3, %r2, 2;
@!%p3 bra E;
""" + LONG.format("L", 50) + """E: add.u32 %r8, %r8, 1;
setp.lt.u32 %p4, %r8, 4;
@%p4 bra H;
"""  # fmt: skip
    kernel = Kernel(body)
    bound = kernel.bound(exclusive(("A", False), ("M", False)))
    assert max(kernel.executed(2), kernel.executed(1)) <= bound <= kernel.bound()


def test_exclusive_cases_of_an_indexed_branch() -> None:
    body = """and.b32 %r8, %r2, 1;
T: .branchtargets C0, C1;
brx.idx %r8, T;
C0: setp.gt.u32 %p2, %r1, 99;
@%p2 bra M;
div.rn.f32 %f1, %f1, %f1;
bra M;
C1: setp.gt.u32 %p2, %r1, 98;
@%p2 bra M;
""" + LONG.format("L", 50) + "M:\n"  # fmt: skip
    kernel = Kernel(body)
    for facts in (exclusive(("C0", False), ("C1", False)), never("C0", False)):
        assert kernel.executed(1) <= kernel.bound(facts) <= kernel.bound()
    short = kernel.bound(never("C1", False))
    assert kernel.executed(0) <= short < kernel.executed(1)
    both = StatedFacts(
        branches=tuple(BranchFact(Place(label), TEST, never=False) for label in ("C0", "C1"))
    )
    assert kernel.code(both) == "PW217"


def test_a_loop_that_is_never_entered_has_no_iterations() -> None:
    body = "setp.eq.u32 %p1, %r4, 1;\n@!%p1 bra E;\n" + LONG.format("L", 50)
    kernel = Kernel(body + "E: st.global.f32 [%d1], %f1;\n")
    assert kernel.executed(0) <= kernel.bound(bounded("L", 0)) < kernel.bound()
    assert kernel.bound(bounded("L", 7)) < kernel.bound()
    assert Kernel(LONG.format("L", 5)).code(bounded("L", 4)) == "PW217"


BREAKS = """mov.u32 %r9, 0;
L: mul.wide.u32 %d4, %r9, 4;
add.u64 %d4, %d1, %d4;
ld.global.u32 %r8, [%d4];
setp.eq.u32 %p8, %r8, 7;
@%p8 bra E;
div.rn.f32 %f1, %f1, %f1;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p9, %r9, 9;
@%p9 bra L;
E:
"""


def test_a_counted_loop_that_data_leave_earlier() -> None:
    """Nine passes: eight jumps back, which are the body executions of a loop with a break."""
    kernel = Kernel(BREAKS)
    whole = kernel.bound()
    bounds = [kernel.bound(bounded("L", most)) for most in (0, 3, 7, 8, 9, 100)]
    assert bounds == sorted(bounds)
    assert bounds[1] < bounds[2] < bounds[3] == bounds[4] == bounds[5] == whole
    assert kernel.executed() <= bounds[3]
    assert kernel.executed(0, 0, 0, 7) <= bounds[1]


def test_body_executions_are_counted_alike() -> None:
    """By the analysis, by facts, by totals, and by what is observed of executions."""
    kernel = Kernel(BREAKS)
    flow = build_flow(kernel.module.kernels[0], kernel.launch)
    data = np.zeros(64, "u4")
    launch = EmulatedLaunch((32, 1, 1), (1, 1, 1), (data, 3))
    options = EmulatorOptions(record_paths=True)
    observed = Observed(flow.cfg, flow.forest)
    observed.add(execute(kernel.module.kernels[0], kernel.module, launch, options=options))
    assert observed.bounds == observed.totals == {0: 8}
    facts = together(StatedFacts(loops=(one,)) for one in observed.loop_facts(labels(flow.cfg)))
    assert kernel.bound(facts) == kernel.bound()
    analysis = analyse_kernel(kernel.module.kernels[0], kernel.launch, MACHINE)
    (entry,) = [
        node for node in analysis.worst.paths.warps[0].nodes if type(node).__name__ == "PathLoop"
    ]
    assert entry.iterations.base == 8


def test_a_bound_of_a_range_that_is_true_of_some_of_its_values() -> None:
    kernel = Kernel("ld.param.u32 %r7, [n];\n" + LONG.format("L", "%r7"))
    kernel.launch = replace(kernel.launch, parameters={}, ranges={"n": (1, 40)})
    whole, cut = kernel.bound(), kernel.bound(bounded("L", 20))
    assert cut <= whole
    kernel.launch = replace(kernel.launch, parameters={"n": 20}, ranges={})
    assert kernel.executed() <= cut


def test_iterations_that_depend_on_the_index_of_the_block_are_all_charged() -> None:
    """Of 20 iterations the last ones are long: how many, the block says."""
    body = """mov.u32 %r10, %ctaid.x;
mov.u32 %r11, 10;
sub.u32 %r11, %r11, %r10;
mov.u32 %r9, 0;
L: setp.lt.u32 %p5, %r9, %r11;
@%p5 bra S;
div.rn.f32 %f1, %f1, %f1;
div.rn.f32 %f1, %f1, %f1;
S: ld.global.u32 %r8, [%d2];
add.u32 %r9, %r9, 1;
setp.ne.u32 %p8, %r8, 7;
@%p8 bra L;
"""
    kernel = Kernel(body)
    alone = []
    for block in range(10):
        fixed = Kernel(body.replace("%ctaid.x", str(block)))
        alone.append(fixed.bound(bounded("L", 20)))
    for size in (2, 10):
        kernel.launch = replace(kernel.launch, grid=(size, 1, 1))
        assert kernel.bound(bounded("L", 20)) >= max(alone[:size])


@pytest.mark.parametrize(
    "text",
    [
        '[[loop]]\nat = "nowhere"\nbound = 3',
        "[[loop]]\nline = 4000\nbound = 3",
        '[[loop]]\nline = "k.cu:99999999999999999999"\nbound = 3',
        '[[loop]]\nline = ":3"\nbound = 3',
        '[[loop]]\nline = "x:0"\nbound = 3',
        "[[loop]]\nline = -3\nbound = 3",
        f'[[loop]]\nat = "$L__BB0_7"\nbound = {10**30}',
        f'[[loop]]\nat = "$L__BB0_7"\ntotal = {10**18 - 1}\nbound = {10**18 - 1}',
        f'[[exclusive]]\nbranches = [[{10**12}, "taken"], ["", "taken"]]',
        '[[exclusive]]\nbranches = [["a.cu:6", "taken"], [12, "taken"]]',
        '[[branch]]\nline = "exclusive_dropped.cu:6"\nnever = "taken"\nuniform = "block"',
        '[[branch]]\nat = "$L__BB0_7"\nnever = "taken"\n[[loop]]\nat = "$L__BB0_7"\nbound = 0',
        '[[call]]\nfunction = "f"\ntotal = 0\nline = "x.cu:3"',
        f'[parameters]\nn = "{-(10**40)}..{10**40}"',
        '[parameters]\nn = "0..4294967295"',
        "[parameters]\nn = -2147483648",
    ],
)
def test_odd_facts_are_answered_or_refused(text: str, tmp_path: Path) -> None:
    digest = hashlib.sha256(Path(EXCLUSIVE).read_bytes()).hexdigest()
    path = tmp_path / "facts.toml"
    path.write_text(f'ptx = "sha256:{digest}"\n{text}\n')
    request = Request(EXCLUSIVE, block="32", facts_file=str(path))
    assert code_or_none(request) != "PW901"
