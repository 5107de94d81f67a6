"""What asking an mbarrier costs: a round, what of it is charged, how soon the next one may come."""

from __future__ import annotations

from dataclasses import replace

import pytest
from parsing import parse_kernel

from ptxwcet.ir.mbarriers import use_of
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import OpTiming
from ptxwcet.timing.counting import Counting, cost_of_counting
from ptxwcet.warp.program import Mbarrier, PartialBarrier, TimedInstruction

pytestmark = pytest.mark.fast

H200 = load_machine("h200")
HEAD = (
    ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{{\n.shared .b64 m;\n"
    ".reg .b32 %r<9>; .reg .pred %p<3>;\n{}\nret;\n}}\n"
)


def counted(statement: str, lanes: int, *again: TimedInstruction) -> PartialBarrier:
    (one, _) = parse_kernel(HEAD.format(statement)).instructions
    assert use_of(one) is not None
    found = cost_of_counting(one, H200, Counting("m", lanes, 1, again), 7)
    assert isinstance(found, PartialBarrier)
    return found


@pytest.mark.parametrize("kind", ["try_wait", "test_wait"])
@pytest.mark.parametrize("lanes", [1, 32])
def test_what_a_round_takes(kind: str, lanes: int) -> None:
    """Twice the poll and the others once; charged are initiations, and the path of the SM."""
    others = (
        TimedInstruction("INT", 2, 5),
        TimedInstruction("INT", 1, 3, bubble_cycles=9, path_cycles=4),
    )
    found = counted(f"mbarrier.{kind}.parity.shared::cta.b64 %p1, [%r1], %r2;", lanes, *others)
    poll, asks = found.instruction, found.mbarrier
    assert asks is not None
    assert poll.path_cycles > 0
    assert asks.round_cycles == 2 * (poll.initiation_cycles + poll.latency_cycles) + 7 + 13
    assert asks.poll_cycles == poll.initiation_cycles + poll.path_cycles + 2 + 1 + 4
    row = H200.timings[OpClass.MBARRIER_WAIT]
    assert isinstance(row, OpTiming)
    rates = dict(row.rates)
    least = rates[kind]
    assert asks.again_cycles == (
        max(least, rates.get(f"whole_{kind}", 0)) if lanes == 32 else least
    )
    if kind == "try_wait":  # hardware suspends whole warps
        assert rates["whole_try_wait"] > least


def test_what_registers_that_are_handed_over_take() -> None:
    take = counted("setmaxnreg.inc.sync.aligned.u32 232;", 32)
    whole = take.instruction.initiation_cycles + take.instruction.latency_cycles
    assert take.waits
    assert take.mbarrier == Mbarrier(round_cycles=whole)
    assert whole > take.instruction.initiation_cycles
    give = counted("setmaxnreg.dec.sync.aligned.u32 40;", 32)
    assert replace(give, instruction=take.instruction) == replace(
        take, waits=False, mbarrier=Mbarrier(arrivals=1)
    )
