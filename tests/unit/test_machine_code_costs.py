"""What instructions of machine code cost: words in place of registers, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refusals_of

from ptxwcet.claims import AssumptionState, Guarantee, TimingClaim
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.ledger import EXECUTION, claim_on
from ptxwcet.machine.loader import load_machine
from ptxwcet.sass.lowering import read_program
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.timing.machine_code import CodeTimes
from ptxwcet.warp.program import Barrier, TimedInstruction

pytestmark = pytest.mark.fast

LISTINGS = Path(__file__).parents[1] / "data" / "sass"
HEAD = ".target sm_86\n.disassembler 13.5\n.section k\n.registers 9\n.shared 0\n.local 0\n"
MACHINE = load_machine("orin-ecrts2025")
CHARGED = load_machine("orin-ecrts2025-memory")


def coded(*lines: str, stall: int = 3, boards: int = 7 << 3 | 7, waits: int = 0) -> Kernel:
    """A kernel of these instructions, all with one word, and EXIT."""
    word = (stall | 1 << 4 | boards << 5 | waits << 11) << 105
    words = [*((line, word) for line in lines), ("EXIT", 0x7F5 << 105)]
    text = [f"/*{16 * n:04x}*/ {line} ; /* {bits:032x} */" for n, (line, bits) in enumerate(words)]
    text.insert(-1, ".L_x_1:")
    source = HEAD + ".parameters 0x160\n.kernel k\n" + "\n".join(text) + "\n"
    (kernel,) = read_program(SourceFile("k.sass", source)).kernels
    return kernel


def timed(kernel: Kernel, *, taken: bool = False) -> TimedInstruction:
    costs = InstructionCosts(MACHINE, 64, code=CodeTimes(kernel))
    (node,) = costs.nodes(0, kernel.instructions[0], taken=taken)
    return node.instruction if isinstance(node, Barrier) else node


def refusal(*lines: str, stall: int = 3) -> tuple[str, str]:
    kernel = coded(*lines, stall=stall)
    costs = InstructionCosts(MACHINE, 64, code=CodeTimes(kernel))
    costs.nodes(0, kernel.instructions[0])
    (found,) = refusals_of(costs.raise_refusals)
    return found.code, found.message


def test_what_holds_no_scoreboard_makes_its_warp_wait() -> None:
    one = timed(coded("IADD3 R0, R1, R2, RZ", stall=13, waits=0b101))
    assert one.initiation_cycles + one.latency_cycles == 13
    assert (one.reads, one.writes) == (("warp.next", "sb.0", "sb.2"), ("warp.next",))
    assert timed(coded("IADD3 R0, R1, R2, RZ", stall=1)).latency_cycles == 0


def test_what_holds_scoreboards_goes_through_a_queue() -> None:
    one = timed(coded("LDG.E R0, [R2.64]", stall=4, boards=1 << 3 | 5))
    row = MACHINE.timings[OpClass.LOAD_GLOBAL]
    assert one.latency_cycles == row.latency_cycles  # type: ignore[union-attr]
    assert (one.writes, one.bubble_cycles, one.conditional) == (("sb.1", "sb.5"), 3, True)


def test_a_taken_branch_has_its_bubble_besides() -> None:
    kernel = coded("BRA `(.L_x_1)", "NOP", stall=5)
    taken, passed = timed(kernel, taken=True), timed(kernel)
    bubble = MACHINE.taken_branch_bubble_cycles
    assert taken.latency_cycles == passed.latency_cycles + bubble > passed.latency_cycles


def test_who_waits_for_some_copies_waits_for_all() -> None:
    lines = "LDGSTS.E [R6], [R2.64]", "LDGDEPBAR", "DEPBAR.LE SB1, 0x2", "DEPBAR.LE SB0, 0x0, {5,4}"
    kernel = coded(*lines, boards=7 << 3 | 1)
    costs = InstructionCosts(MACHINE, 64, code=CodeTimes(kernel))
    nodes = [costs.nodes(n, one)[0] for n, one in enumerate(kernel.instructions)]
    copy, commit, some, others = nodes[:4]
    assert copy.writes == ("sb.1", "copies")  # type: ignore[union-attr]
    assert commit.writes == ("sb.1",)  # type: ignore[union-attr]
    assert some.reads == ("warp.next", "sb.1", "copies")  # type: ignore[union-attr]
    assert others.reads == ("warp.next", *(f"sb.{n}" for n in range(6)), "copies")  # type: ignore[union-attr]


def test_a_fence_ends_before_its_warp_goes_on() -> None:
    for stall, line in ((6, "MEMBAR.SC.GPU"), (0, "ERRBAR")):
        one = timed(coded(line, stall=stall))
        row = MACHINE.timings[OpClass.FENCE]
        assert one.writes == ("warp.next",)
        latency = max(row.latency_cycles, stall - row.initiation_cycles)  # type: ignore[union-attr]
        assert one.latency_cycles == latency


def test_no_stall_is_refused_by_name_and_address() -> None:
    code, message = refusal("IADD3 R0, R1, R2, RZ", stall=0)
    assert code == "PW405"
    assert message.startswith("IADD3 at 0x0000 gives no stall")


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ("BAR.SYNC.DEFER_BLOCKING 0x0", True),
        ("BAR.SYNC 0x1, 0x40", True),
        ("BAR.RED.POPC.DEFER_BLOCKING 0x0, P0", True),
        ("BAR.RED.AND.DEFER_BLOCKING 0x0, !PT", True),
        ("BAR.SYNC 0x1, 0x20", False),
        ("BAR.RED.OR.DEFER_BLOCKING 0x1, 0x20, P0", False),
        ("BAR.RED.OR.DEFER_BLOCKING 0x1, 0x1, PT", False),
        ("BAR.SYNC R6", False),
        ("BAR.SYNC 0x1, R6", False),
        ("BAR.ARV 0x2, 0x40", False),
        ("@P0 BAR.SYNC 0x0", False),
    ],
)
def test_barriers(line: str, is_known: bool) -> None:
    kernel = coded(line)
    costs = InstructionCosts(MACHINE, 64, code=CodeTimes(kernel))
    nodes = costs.nodes(0, kernel.instructions[0])
    codes = [one.code for one in refusals_of(costs.raise_refusals)] if costs.has_refusals else []
    assert codes == ([] if is_known else ["PW403"])
    assert [isinstance(one, Barrier) for one in nodes] == ([True] if is_known else [])


def test_a_sleep_and_what_says_where_lanes_meet() -> None:
    asleep, met = timed(coded("NANOSLEEP 0x64")), timed(coded("BSYNC B0"))
    assert asleep.latency_cycles - met.latency_cycles == -(-200 * MACHINE.clock_mhz // 1000)
    assert refusal("NANOSLEEP c[0x0][0x168]")[0] == "PW402"


def test_accesses_that_nobody_counted_are_charged_the_most() -> None:
    kernel = coded("LDG.E R0, [R2.64]", boards=7 << 3)
    costs = InstructionCosts(CHARGED, 64, code=CodeTimes(kernel))
    (node,) = costs.nodes(0, kernel.instructions[0])
    assert isinstance(node, TimedInstruction)
    assert node.initiation_cycles > timed(kernel).initiation_cycles
    assert not costs.is_nominal


@pytest.mark.parametrize("name", ["orin-ecrts2025", "rtx-4070"])
def test_what_bounds_of_machine_code_rest_on(name: str) -> None:
    machine = load_machine(name)
    costs = LaunchCosts(coded("NOP"), Launch((64, 1, 1)), machine, accesses=None)
    assert not costs.is_nominal
    states = {one.key: one.state for one in costs.assumptions}
    doubt = AssumptionState.BY_DEFINITION if machine.is_idealised else AssumptionState.DOUBTFUL
    assert states["waits-as-encoded"] is doubt
    assert states["machine-code-is-executed"] is AssumptionState.ASSUMED
    stated = TimingClaim(1, Guarantee.SAFE_BOUND, "safe", costs.assumptions)
    claim = claim_on(machine, EXECUTION, stated)
    keys = {one.key for one in claim.assumptions}
    assert "ptx-is-executed" not in keys
    assert "machine-code-is-executed" in keys
    of_ptx = claim_on(machine, EXECUTION, TimingClaim(1, Guarantee.SAFE_BOUND, "safe"))
    assert ("ptx-is-executed" in {one.key for one in of_ptx.assumptions}) != machine.is_idealised


def test_an_end_that_waits_may_outlast_a_barrier() -> None:
    kernel = coded("EXIT", waits=1)
    costs = InstructionCosts(MACHINE, 64, code=CodeTimes(kernel))
    assert costs.outlasts_barrier(0, kernel.instructions[0])


def test_a_constant_for_the_uniform_datapath_comes_through_a_pipe() -> None:
    one = timed(coded("ULDC.64 UR4, c[0x0][0x118]", stall=4))
    move = timed(coded("UMOV UR4, URZ", stall=4))
    assert one == move
    assert one.writes == ("warp.next",)


def test_machine_code_is_charged_as_the_form_that_it_is_made_of() -> None:
    machine = load_machine("h100")
    for line, charged in (
        ("MUFU.EX2 R1, R2", (8, 20)),
        ("MUFU.COS R1, R2", (235, 2)),
        ("HMMA.16816.F32 R4, R8, R12, R4", (6, 0)),
        ("HMMA.1688.F32 R4, R8, R12, R4", (64, 0)),
    ):
        kernel = coded(line)
        costs = InstructionCosts(machine, 64, code=CodeTimes(kernel))
        (node,) = costs.nodes(0, kernel.instructions[0])
        assert isinstance(node, TimedInstruction)
        assert (node.initiation_cycles, node.latency_cycles) == charged
