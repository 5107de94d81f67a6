"""Calls through a register: a choice of the functions listed for them, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from executions import execute_first
from parsing import parse_text
from refusals import refusal_of

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.emulator.executed_paths import executed_warps
from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.graph import inlining
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.pipeline import analyse_kernel

pytestmark = pytest.mark.fast

TEXT = """.version 8.3
.target sm_80
.address_size 64
.extern .func (.reg .u32 r) elsewhere (.reg .u32 a);
.func (.reg .u32 r) few (.reg .u32 a);
FUNCTION many (.reg .u32 a)
{ .reg .pred %p; mov.u32 r, 0; L: add.u32 r, r, 1; setp.lt.u32 %p, r, 30; @%p bra L; ret; }
.func (.reg .u32 r) few (.reg .u32 a)
{ .reg .pred %p; mov.u32 r, 0; L: add.u32 r, r, 1; setp.lt.u32 %p, r, 3; @%p bra L; }
.func (.reg .u32 r) again (.reg .u32 a)
{ .reg .b64 %f; T: .calltargets again, few; mov.u64 %f, few; call (r), %f, (a), T; ret; }
.func (.reg .u32 r) wide (.reg .u64 a) { mov.u32 r, 1; ret; }
.visible .entry k(.param .u64 out, .param .u64 chosen)
{
.reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<4>;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mad.wide.u32 %rd1, %r1, 4, %rd1;
mov.u32 %r2, 7;
setp.lt.u32 %p1, %r1, 20;
ADDRESS
T: .calltargets LIST;
P: .callprototype (.reg .u32 _) _ (.reg .u32 _);
CALL
st.global.u32 [%rd1], %r2;
ret;
}
""".replace("FUNCTION", ".func (.reg .u32 r)")
BY_LANE = "mov.u64 %rd2, few; mov.u64 %rd3, many; selp.b64 %rd4, %rd2, %rd3, %p1;"
BY_DATA = "ld.param.u64 %rd4, [chosen];"
CALL = "call (%r2), %rd4, (%r1), T;"


def text(address: str = BY_LANE, listed: str = "few, many", call: str = CALL) -> str:
    return TEXT.replace("ADDRESS", address).replace("LIST", listed).replace("CALL\n", call + "\n")


def bound(*given: str, threads: int = 32) -> KernelAnalysis:
    module = parse_text(text(*given))
    kernel = inline_calls(module.kernels[-1], module)
    return analyse_kernel(kernel, Launch((threads, 1, 1)), load_machine(DEFAULT_MACHINE, None))


def cycles(*given: str) -> int:
    return bound(*given).worst.bound.cycles


def iterations(analysis: KernelAnalysis) -> list[int]:
    nodes = [warp.nodes for warp in analysis.worst.paths.warps]
    return sorted(entry.iterations.base for path in nodes for entry in loop_entries(path))


def test_lanes_that_part_are_counted_one_after_the_other() -> None:
    assert iterations(bound()) == [3, 30]
    few, many, both = (cycles(BY_LANE, names) for names in ("few", "many", "few, many"))
    assert both > many > few


def test_an_address_that_the_warp_shares_is_one_of_the_functions() -> None:
    one = cycles(BY_DATA)
    assert cycles(BY_DATA, "many") <= one < cycles()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_numbers_are_no_places_in_the_list(number: int) -> None:
    address = f"mov.u64 %rd4, {number};"
    assert cycles(address) >= cycles(address, "many")


def test_the_order_and_repetitions_of_a_list_count_for_nothing() -> None:
    assert cycles(BY_DATA) == cycles(BY_DATA, "few, many, few")
    assert iterations(bound(BY_LANE, "many, few, many")) == [3, 30]


@pytest.mark.parametrize(
    ("listed", "call", "said"),
    [
        ("few, many", CALL.replace("T", "P"), "indirect call"),
        ("few, elsewhere", CALL, "indirect call"),
        ("few, again", CALL, "again -> again"),
        ("few, many", CALL.replace(", T", ""), "indirect call"),
    ],
)
def test_what_is_not_known_is_refused(listed: str, call: str, said: str) -> None:
    refusal = refusal_of(bound, BY_LANE, listed, call)
    assert refusal.code == "PW220"
    assert said in refusal.message


def test_functions_that_do_not_fit_the_call_are_errors_as_for_ptxas() -> None:
    refusal = refusal_of(parse_text, text(listed="few, wide"))
    assert refusal.code == "PW108"
    assert "'a' is no .u64" in refusal.message


def test_a_barrier_in_one_of_them_is_for_warps_that_agree() -> None:
    waits = "{ .reg .pred %p; mov.u32 r, 0; bar.sync 0; L:"
    given = text().replace("{ .reg .pred %p; mov.u32 r, 0; L:", waits, 1)
    assert "bar.sync" in given

    def analysed() -> KernelAnalysis:
        module = parse_text(given)
        kernel = inline_calls(module.kernels[-1], module)
        return analyse_kernel(kernel, Launch((64, 1, 1)), load_machine(DEFAULT_MACHINE, None))

    assert refusal_of(analysed).code == "PW222"


def test_copies_for_lists_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "MOST_COPIED", 12)
    assert refusal_of(bound, BY_LANE).code == "PW252"
    assert bound(BY_LANE, "few")


@pytest.mark.parametrize("guard", ["", "@%p2 ", "@!%p2 "])
def test_executed_paths_are_among_those_that_are_bounded(guard: str) -> None:
    """Lanes below 20 call one function, those from 20 on the other; those below 5 may not call."""
    address = BY_LANE + "setp.lt.u32 %p2, %r1, 5;"
    given = text(address, call=guard + CALL)
    out = np.zeros(32, "i4")
    done = execute_first(
        given,
        EmulatedLaunch((32, 1, 1), (1, 1, 1), (out, 0)),
        record_paths=True,
    )
    assert not done.findings
    calls = {"": range(32), "@%p2 ": range(5), "@!%p2 ": range(5, 32)}[guard]
    expected = [(3 if lane < 20 else 30) if lane in calls else 7 for lane in range(32)]
    assert done.buffers[0].tolist() == expected
    cfg = build_cfg(done.kernel)
    (path,) = executed_warps(done, cfg, tuple(compute_postdominators(cfg).immediate)).paths
    executed = sorted(entry.iterations.base for entry in loop_entries(path))
    assert set(executed) <= {3, 30}
    found = bound(address, "few, many", guard + CALL)
    assert sum(iterations(found)) >= sum(executed)


def test_an_address_that_is_not_listed_is_found() -> None:
    done = execute_first(
        text(BY_DATA), EmulatedLaunch((32, 1, 1), (1, 1, 1), (np.zeros(32, "i4"), 1))
    )
    assert [one.code for one in done.findings] == ["PW440"]
