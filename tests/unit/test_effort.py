"""Effort is counted in steps: kernels that once took long end within a budget, with their code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from answers import only_refusal, with_steps
from parsing import parse_kernel
from places import ROOT

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow import flow_graph
from ptxwcet.flow.certificates import proof
from ptxwcet.flow.certificates.certificate import Bound, Certificate, Part, Step, Sum
from ptxwcet.flow.certificates.checker import Verdict
from ptxwcet.flow.certificates.proof import Proof, verdict_of
from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.flow.flow_graph import MOST_SEARCH_STEPS, FlowGraph, Work
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths import extraction
from ptxwcet.flow.paths.extraction import flow_graph as flow_graph_of
from ptxwcet.flow.walk import analysed, closed_forms, loops, variants
from ptxwcet.opened.request import Request
from ptxwcet.pipeline import build_flow

EFFORT = ROOT / "tests" / "data" / "effort"


# The last steps are counted that were too many: those of a block, or of one look at facts.
MORE = 1_000
SEARCH = MOST_SEARCH_STEPS + MORE


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("kernel", "block", "parameters", "code", "walking", "searching"),
    [
        ("counters.byte_counter", "32", (), "PW203", 300, 1_000),
        ("counters.byte_limit", "32", (), "bound", 3_000, 1_000),
        ("counters.short_beside_data", "32", (), "PW203", 1_000, 20_000),
        ("counters.short_until_data", "32", (), "PW203", 300, 5_000),
        ("hermitian.hermitian", "16x4", (), "PW203", 60_000, SEARCH),
        ("hermitian.hermitian", "16x4", ("n=1000",), "bound", 120_000, 50_000),
        ("hermitian.hermitian_rows", "64", (), "PW203", 25_000, SEARCH),
        (
            "hermitian.hermitian_rows",
            "64",
            ("n=1000", "from=0", "to=1000"),
            "bound",
            40_000,
            200_000,
        ),
    ],
)
def test_steps(
    kernel: str,
    block: str,
    parameters: tuple[str, ...],
    code: str,
    walking: int,
    searching: int,
) -> None:
    file, _, name = kernel.partition(".")
    path = str(EFFORT / f"{file}.ptx")
    found, walked, searched = with_steps(Request(path, (name,), block, parameters=parameters))
    assert found == code
    assert walked <= walking
    assert searched <= searching


def test_what_searches_visit_takes_steps_of_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kernel of thousands of instructions ways to a loop are long, and little of them read."""
    request = Request(str(EFFORT / "counters.ptx"), ("short_beside_data",), "32")
    walked = []
    for visits in (1 << 30, 16, 1):
        monkeypatch.setattr(variants, "_VISITED_IN_A_STEP", visits)
        found, steps, _ = with_steps(request)
        assert found == "PW203"
        walked.append(steps)
    free, some, all_ = walked
    assert free < some < all_
    monkeypatch.setattr(flow_graph, "MOST_WALK_STEPS", free)
    (refused,) = only_refusal(request).diagnostics
    assert refused.code == "PW206"
    assert "--loop-bound '$L__BB" in (refused.help or "")


def test_what_decides_in_a_kernel_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many launches are tried for what would settle a refusal."""
    plain, slices = extraction.control_slice, []
    monkeypatch.setattr(
        extraction, "control_slice", lambda kernel: slices.append(1) or plain(kernel)
    )
    graphs = []
    plain_graph = extraction.FlowGraph
    monkeypatch.setattr(
        extraction, "FlowGraph", lambda *parts: graphs.append(1) or plain_graph(*parts)
    )
    found, _, _ = with_steps(Request(str(ROOT / "samples" / "saxpy.ptx"), block="64"))
    assert found == "PW203"
    assert len(graphs) > 1
    assert len(slices) == 1


@pytest.mark.parametrize("sample", ["naive", "cp_async", "double_buffered"])
def test_a_counter_that_its_limit_lets_wrap_around_never_ends(sample: str) -> None:
    """By hand: in steps of 32 the counter goes from 2**31 - 32 to -2**31, below any limit."""
    sizes = ("M=64", "N=64", "K=2147483647")
    path = str(ROOT / "samples" / f"sgemm_{sample}.ptx")
    found, walked, searched = with_steps(Request(path, block="16x16", parameters=sizes))
    assert found == "PW205"
    assert walked <= 300
    assert searched <= 20_000


def test_a_walk_that_is_given_up_suggests_what_was_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flow_graph, "MOST_WALK_STEPS", 5_000)
    monkeypatch.setattr(flow_graph, "MOST_STEPS_TOGETHER", 5_000)
    sizes = ("n=1000", "from=0", "to=1000")
    path = str(EFFORT / "hermitian.ptx")
    row = only_refusal(Request(path, ("hermitian_rows",), "64", parameters=sizes))
    assert row.diagnostics[0].code == "PW206"
    assert str(row.diagnostics[0].help).startswith("no fact that was tried leads further: ")


def test_a_budget_ends_what_it_was_given_for() -> None:
    effort = Effort(10)
    effort.spend(10)
    with pytest.raises(TooMuchEffort):
        effort.spend(1)
    assert effort.spent == 11


def test_registers_that_meet_count(tmp_path: Path) -> None:
    branches = "".join(
        f"setp.gt.f32 %p1, %f1, {number}.0; @%p1 bra L{number}; add.s32 %r0, %r0, 1; L{number}:\n"
        for number in range(20)
    )
    walked = []
    for registers in (1, 1_000):
        names = [f"%r{1 + number % registers}" for number in range(1_000)]
        moves = "".join(f"mov.u32 {name}, 1;\n" for name in names)
        sums = "".join(f"add.s32 %r0, %r0, {name};\n" for name in names)
        path = tmp_path / f"k{registers}.ptx"
        path.write_text(
            ".version 8.0\n.target sm_86\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
            ".reg .pred %p<2>; .reg .b32 %r<1001>; .reg .f32 %f<2>; .reg .b64 %rd<2>;\n"
            "ld.param.u64 %rd1, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4;\n"
            "add.s64 %rd1, %rd1, %rd0; ld.global.f32 %f1, [%rd1]; mov.u32 %r0, 0;\n"
            f"{moves}{branches}{sums}setp.lt.s32 %p1, %r0, 0; @%p1 bra E; E: ret;\n}}\n"
        )
        walked.append(with_steps(Request(str(path), block="32"))[1])
    assert walked[1] - walked[0] == 20 * (1_000 // 256)


# --- what is not done is what would change nothing ------------------------------------------------


def kernel_of(body: str, folder: Path) -> Request:
    """A kernel of one warp whose lanes have a number from memory in ``%f1``, where ``%rd1`` is."""
    path = folder / "k.ptx"
    path.write_text(
        ".version 8.0\n.target sm_86\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
        ".reg .pred %p<9>; .reg .b32 %r<99>; .reg .f32 %f<2>; .reg .b64 %rd<2>;\n"
        "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd0, %r1, 4;\n"
        "add.s64 %rd1, %rd1, %rd0; ld.global.f32 %f1, [%rd1];\n"
        f"{body}ret;\n}}\n"
    )
    return Request(str(path), block="32")


def branches(count: int, variable: str = "%r2") -> str:
    """Branches by what memory holds."""
    return "".join(
        f"setp.gt.f32 %p1, %f1, {n}.0; @%p1 bra L{n}; add.s32 {variable}, {variable}, 1; L{n}:\n"
        for n in range(count)
    )


def bound_with(request: Request, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """The bound in cycles, and the steps of all walks and of all proofs."""
    spent = {"walking": 0, "proving": 0}
    plain = Effort.spend
    works: list[Work] = []
    first = Work.__init__

    def noted(self: Work, **given: Any) -> None:
        first(self, **given)
        works.append(self)

    def spend(self: Effort, steps: int) -> None:
        for name in spent:
            spent[name] += steps * any(getattr(one, name) is self for one in works)
        plain(self, steps)

    with monkeypatch.context() as patched:
        patched.setattr(Work, "__init__", noted)
        patched.setattr(Effort, "spend", spend)
        (answered,) = bound_file(request).answered
    return answered.worst.bound.cycles, spent["walking"], spent["proving"]


def test_closed_forms_are_not_looked_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that are halved have none: of 12 entries of the inner loop, each shorter than the one
    before, four look for it. A way round both loops is a dozen steps, with a look at periods 1 to 4
    and 8 some 60: the eight entries that do not look save some hundreds.
    """
    request = kernel_of(
        "mov.u32 %r3, 4096;\nO: mov.u32 %r4, %r3;\n"
        "I: ld.global.f32 %f1, [%rd1]; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra X;\n"
        "shr.u32 %r4, %r4, 1; setp.gt.u32 %p2, %r4, 1; @%p2 bra I;\n"
        "X: shr.u32 %r3, %r3, 1; setp.gt.u32 %p3, %r3, 1; @%p3 bra O;\n",
        tmp_path,
    )
    few, steps, _ = bound_with(request, monkeypatch)
    monkeypatch.setattr(analysed, "_MOST_FAILURES", 1 << 32)
    many, more, _ = bound_with(request, monkeypatch)
    assert few == many
    assert steps + 300 < more


COUNTED = (
    "mov.u32 %r2, 0; mov.u32 %r3, 0;\nH: setp.ge.s32 %p2, %r3, 100; @%p2 bra E;\n"
    "ld.global.u8 %r4, [%rd1]; setp.gt.s32 %p3, %r4, 2; @%p3 bra M; add.s32 %r2, %r2, 1; M:\n"
    "add.s32 %r3, %r3, 1; bra H;\nE:\n"
)
"""What ``%p3`` says of a byte is said of another one in each iteration."""


def test_what_an_iteration_leaves_to_none_is_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = kernel_of(COUNTED, tmp_path)
    few, steps, _ = bound_with(request, monkeypatch)
    monkeypatch.setattr(FlowGraph, "temporaries", lambda *_: frozenset())
    many, more, _ = bound_with(request, monkeypatch)
    assert few == many
    assert steps < more


LEFT_BY_VALUE = (
    "ld.global.u8 %r5, [%rd1]; and.b32 %r5, %r5, 15;\n"
    "mov.u32 %r2, 0; mov.u32 %r3, 0;\nH: setp.ge.s32 %p2, %r3, %r5; @%p2 bra E;\n"
    f"{branches(6)}add.s32 %r3, %r3, 1; bra H;\n"
    "E: setp.lt.s32 %p3, %r2, 0; @%p3 bra D; D:\n"
)
"""Each lane stays up to 15 times: followed one by one, until no number is left that stays."""


def test_periods_that_guess_what_one_iteration_guesses_are_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = kernel_of(LEFT_BY_VALUE, tmp_path)
    few, steps, _ = bound_with(request, monkeypatch)
    monkeypatch.setattr(closed_forms, "_is_steady", lambda *_: False)
    many, more, _ = bound_with(request, monkeypatch)
    assert few == many
    assert 2 * steps < more


FROM_ITS_INDEX = (
    "mov.u32 %r2, 0; add.s32 %r3, %r1, 1;\nH: setp.ge.s32 %p2, %r3, 32; @%p2 bra E;\n"
    f"{branches(5)}add.s32 %r3, %r3, 1; bra H;\n"
    "E: setp.lt.s32 %p3, %r2, 0; @%p3 bra D; D:\n"
)
"""Lanes leave one by one: the first stays 31 times, the last not once."""


def test_lanes_that_leave_one_by_one_are_not_told_apart_if_that_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = kernel_of(FROM_ITS_INDEX, tmp_path)
    monkeypatch.setattr(flow_graph, "MOST_WALK_STEPS", 600)
    monkeypatch.setattr(flow_graph, "MOST_STEPS_TOGETHER", 600)
    few, steps, _ = bound_with(request, monkeypatch)
    monkeypatch.setattr(analysed, "_ONE_BY_ONE", 1 << 32)
    many, more, _ = bound_with(request, monkeypatch)
    assert few == many
    assert steps + 200 < more


def test_a_loop_too_long_to_be_followed_has_a_closed_form_in_the_values_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a variant, as of kernels too large to look for one: 31 iterations of some 25 steps
    are not followed in 300, with what telling lanes apart has left.
    """
    request = kernel_of(FROM_ITS_INDEX, tmp_path)
    monkeypatch.setattr(loops, "_variant_claim", lambda *_: None)
    monkeypatch.setattr(flow_graph, "MOST_WALK_STEPS", 600)
    followed, more, _ = bound_with(request, monkeypatch)
    monkeypatch.setattr(flow_graph, "MOST_STEPS_TOGETHER", 300)
    closed, steps, _ = bound_with(request, monkeypatch)
    assert closed == followed
    assert steps + 400 < more
    monkeypatch.setattr(analysed._Search, "compared", lambda self: self.history)
    assert only_refusal(request).diagnostics[0].code == "PW206"


def test_a_loop_that_many_values_may_end_is_asked_for(tmp_path: Path) -> None:
    """That it ends after 2^31 iterations is of no use: its bound or the range of the array is."""
    body = LEFT_BY_VALUE.replace("ld.global.u8 %r5, [%rd1]; and.b32 %r5, %r5, 15;", "")
    body = f"ld.global.u32 %r5, [%rd1]; shr.u32 %r5, %r5, 1;\n{body}"
    assert only_refusal(kernel_of(body, tmp_path)).diagnostics[0].code == "PW203"


def test_nothing_is_asked_of_facts_that_were_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound of the number that is counted down is enough, whatever is known of another one."""
    kernel = parse_kernel(
        ".version 8.0\n.target sm_86\n.address_size 64\n.visible .entry k(.param .u32 n)\n{\n"
        ".reg .pred %p<2>; .reg .b32 %r<3>;\nld.param.u32 %r1, [n]; ld.param.u32 %r2, [n];\n"
        "L: add.s32 %r1, %r1, -1; setp.gt.s32 %p1, %r1, 0; @%p1 bra L;\n"
        "setp.gt.s32 %p1, %r2, 0; @%p1 bra E; E: ret;\n}\n"
    )
    launch = Launch((32, 1, 1))
    graph = flow_graph_of(build_flow(kernel, launch), launch)
    (loop,) = graph.forest.loops
    counted, other = (Sum((Part(name),)) for name in ("%r1", "%r2"))
    certificate = Certificate((Bound(counted, 0, 99),), counted, 99, 1, (Step(1, -1, 1),), 98)
    questions = []
    plain = proof.check_entry
    monkeypatch.setattr(
        proof, "check_entry", lambda *asked: questions.append(asked) or plain(*asked)
    )

    def verdict(*facts: Bound) -> Verdict:
        return verdict_of(graph, loop, Proof(certificate, facts), Effort(1 << 30))

    for number in range(3):
        assert verdict(Bound(counted, 0, 99), Bound(other, number, number)) is Verdict.CONFIRMED
    before = len(questions)
    assert verdict(Bound(counted, 0, 99), Bound(other, 7, 7)) is Verdict.CONFIRMED
    assert len(questions) == before
    assert verdict(Bound(counted, 0, 100), Bound(other, 1, 1)) is Verdict.WRONG
    assert verdict(Bound(other, 1, 1)) is Verdict.WRONG
