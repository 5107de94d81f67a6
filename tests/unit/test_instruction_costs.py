"""From PTX instructions to timed instructions: classes, guards, branches, copies, refusals."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from answers import only_refusal
from instruction_forms import form
from parsing import parse_kernel, parse_text
from places import DATA, ROOT
from refusals import refusals_of

from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.expansion import made_of
from ptxwcet.machine.loader import load_machine, shipped_machines
from ptxwcet.machine.model import OpTiming
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.cost import (
    Cost,
    InstructionCosts,
    charge_unknown,
    cost_instruction,
)
from ptxwcet.timing.machine_code import PTX_FORMS
from ptxwcet.timing.phases import profile_warp
from ptxwcet.warp.program import Barrier, PartialBarrier, Scoreboard, TimedInstruction

pytestmark = pytest.mark.fast

MACHINE = load_machine("orin-ecrts2025", 100)


def parsed(*statements: str) -> tuple[Instruction, ...]:
    text = (
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
        ".reg .b16 %h<9>; .reg .b32 %r<19>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<3>;\n"
        ".shared .align 16 .b8 s[1024];\nL:\n"
        + "\n".join(f"{s};" for s in statements)
        + "\nret;\n}\n"
    )
    return parse_kernel(text).instructions


def cost(statement: str, *, taken: bool = False, threads: int | None = None) -> Cost:
    (instruction, _) = parsed(statement)
    return cost_instruction(instruction, MACHINE, taken=taken, origin=7, block_threads=threads)


def timed(statement: str, *, taken: bool = False) -> TimedInstruction:
    result = cost(statement, taken=taken)
    assert isinstance(result, TimedInstruction)
    return result


def refused(statement: str, threads: int | None = None) -> Diagnostic:
    result = cost(statement, threads=threads)
    assert isinstance(result, Diagnostic)
    assert result.span is not None
    assert result.span.text.startswith(statement.split()[0])
    return result


def test_a_plain_instruction() -> None:
    assert timed("fma.rn.f32 %f1, %f2, %f3, %f4") == TimedInstruction(
        "SP", 1, 7, ("%f2", "%f3", "%f4"), ("%f1",), origin=7
    )


def test_a_guard_is_read_and_makes_the_write_conditional() -> None:
    node = timed("@!%p1 add.s32 %r1, %r2, 1")
    assert node.conditional
    assert set(node.reads) == {"%p1", "%r2"}
    assert not timed("add.s32 %r1, %r2, 1").conditional


def test_vector_loads_write_several_registers() -> None:
    node = timed("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+16]")
    assert (node.unit, node.initiation_cycles, node.latency_cycles) == ("GMEM", 1, 103)
    assert node.writes == ("%r1", "%r2", "%r3", "%r4")
    assert node.reads == ("%rd1",)


def test_a_taken_branch_leaves_a_bubble() -> None:
    assert timed("@%p1 bra L", taken=True).bubble_cycles == 1
    assert timed("@%p1 bra L").bubble_cycles == 0


def test_returns_are_issued_where_the_machine_says_so() -> None:
    plain, guarded, _ = parsed("ret", "@%p1 ret")
    silent = replace(MACHINE, issues_return=False)
    assert isinstance(cost_instruction(plain, MACHINE), TimedInstruction)
    assert cost_instruction(plain, silent) is None
    assert isinstance(cost_instruction(guarded, silent), TimedInstruction)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("bar.sync 0", "0"),
        ("barrier.sync 3", "3"),
        ("bar.red.popc.u32 %r1, 2, %p1", "2"),
        ("bar.sync 1, 128", "1"),
        ("bar.red.and.pred %p2, 1, 128, %p1", "1"),
    ],
)
def test_barriers(statement: str, name: str) -> None:
    result = cost(statement, threads=128)
    assert isinstance(result, Barrier)
    assert result.name == name
    assert result.instruction.unit == "INT"


@pytest.mark.parametrize(
    ("statement", "name", "warps", "waits"),
    [
        ("bar.sync 1, 64", "1", 2, True),
        ("barrier.sync.aligned 3, 32", "3", 1, True),
        ("bar.arrive 1, 128", "1", 4, False),
        ("bar.red.and.pred %p2, 1, 64, %p1", "1", 2, True),
    ],
)
def test_barriers_of_a_part_of_the_block(
    statement: str, name: str, warps: int, waits: bool
) -> None:
    result = cost(statement, threads=128)
    assert isinstance(result, PartialBarrier)
    assert (result.name, result.warps, result.waits) == (name, warps, waits)


@pytest.mark.parametrize(
    ("statement", "threads"),
    [
        ("bar.sync 1, 160", 128),
        ("bar.sync 1, 64", None),
        ("bar.sync 1, %r1", 128),
        ("bar.sync %r1", 128),
        ("@%p1 bar.sync 0", 128),
    ],
)
def test_barriers_without_a_proof(statement: str, threads: int | None) -> None:
    assert refused(statement, threads).code == "PW403"


def test_an_increase_of_registers_waits_for_others() -> None:
    """With a row a decrease is an instruction as any other; an increase is none."""
    timings = {**MACHINE.timings, OpClass.CONTROL_OTHER: MACHINE.timings[OpClass.MOVE]}
    given = replace(MACHINE, timings=timings)
    less, more = parsed(*(f"setmaxnreg.{way}.sync.aligned.u32 40" for way in ("dec", "inc")))[:2]
    assert isinstance(cost_instruction(less, given), TimedInstruction)
    refusal = cost_instruction(more, given)
    assert isinstance(refusal, Diagnostic)
    assert refusal.code == "PW403"


@pytest.mark.parametrize(
    "statement",
    [
        "mbarrier.try_wait.shared.b64 %p1, [s], %rd1",
        "cp.async.bulk.prefetch.L2.global [%rd1], 16",
        "wgmma.wait_group.sync.aligned 0",
        "nanosleep.u32 %r1",
        "trap",
        "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f1,%f2}]",
        "barrier.cluster.wait",
    ],
)
def test_refused_by_name(statement: str) -> None:
    problem = refused(statement)
    assert problem.code == "PW402"
    assert problem.message.startswith(statement.split()[0])
    assert MACHINE.name in problem.message


def test_a_sleep_takes_twice_what_it_is_told_at_most() -> None:
    branch, sleep = timed("bra.uni L"), timed("nanosleep.u32 100")
    cycles = 2 * 100 * MACHINE.clock_mhz / 1000
    assert cycles <= sleep.bubble_cycles < cycles + 1
    assert sleep.latency_cycles == branch.latency_cycles + sleep.bubble_cycles
    assert sleep.initiation_cycles == branch.initiation_cycles


def test_shared_matrix_moves_cost_what_shared_accesses_do() -> None:
    load = timed("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r5]")
    plain = timed("ld.shared.u32 %r1, [%r5]")
    assert (load.unit, load.latency_cycles) == (plain.unit, plain.latency_cycles)


def test_a_refusal_names_the_machines_that_have_a_row() -> None:
    (atomic, sleep, fence, _) = parsed("atom.shared.add.u32 %r1, [s], %r2", "trap", "membar.gl")
    titan = load_machine("titan-v")
    for instruction in (atomic, fence):
        problem = cost_instruction(instruction, titan)
        assert isinstance(problem, Diagnostic)
        assert problem.help is not None
        listed = problem.help.partition(": ")[2].partition(" (--machine)")[0]
        assert "orin-ecrts2025 (idealised), orin-ecrts2025-16sm (idealised)" in listed
        assert "rtx3070-gpgpusim (idealised)" not in listed
        named = listed.replace(" (idealised)", "").split(", ")
        assert named == [
            name
            for name in shipped_machines()
            if not isinstance(cost_instruction(instruction, load_machine(name)), Diagnostic)
        ]
        assert "jetson-agx-orin" in named
        assert "titan-v" not in named
    nowhere = cost_instruction(sleep, titan)
    assert isinstance(nowhere, Diagnostic)
    assert nowhere.help is not None
    assert "no machine that comes with the tool" in nowhere.help


def test_nothing_of_a_warp_is_issued_before_a_fence_that_stalls_it_has_ended() -> None:
    row = MACHINE.timings[OpClass.FENCE]
    assert isinstance(row, OpTiming)
    stalls = replace(row, initiation_cycles=2, latency_cycles=50, stalls=True)
    machine = replace(MACHINE, timings={**MACHINE.timings, OpClass.FENCE: stalls})
    shared = ["st.shared.u32 [%r5], %r6"] * 40  # the fence waits for its unit
    for after in ("mov.u32 %r2, 1", "bar.sync 0", "@%p1 bra L", "frobnicate.b32 %r1"):
        costs = InstructionCosts(machine, 32, unknown_at_worst=True)
        statements = parsed(*shared, "membar.gl", after)[:-1]
        nodes = [costs.nodes(index, one)[0] for index, one in enumerate(statements)]
        timed = [one if isinstance(one, TimedInstruction) else one.instruction for one in nodes]
        initiation = timed[0].initiation_cycles
        slow = [replace(one, initiation_cycles=initiation + 5) for one in timed[:40]] + timed[40:]
        ended = profile_warp(slow[:41], Scoreboard.RAW_WAW).isolated_cycles
        assert ended == 40 * (initiation + 5) + 2 + 50
        assert profile_warp(slow, Scoreboard.RAW_WAW).issue_end_cycles == ended + 1


# --- asynchronous copies --------------------------------------------------------------------------


def program(*statements: str) -> tuple[TimedInstruction, ...]:
    costs = InstructionCosts(MACHINE)
    nodes = [n for k, ins in enumerate(parsed(*statements)[:-1]) for n in costs.nodes(k, ins)]
    costs.raise_refusals()
    assert all(isinstance(node, TimedInstruction) for node in nodes)
    return tuple(node for node in nodes if isinstance(node, TimedInstruction))


COPY = "cp.async.cg.shared.global [%r1], [%rd1], 16"


@pytest.mark.parametrize("scoreboard", Scoreboard)
def test_a_wait_waits_for_every_copy(scoreboard: Scoreboard) -> None:
    copies = [COPY] * 5
    nodes = program(*copies, "cp.async.commit_group", "cp.async.wait_group 0")
    profile = profile_warp(nodes, scoreboard)
    wait = nodes[-1].initiation_cycles + nodes[-1].latency_cycles
    assert profile.isolated_cycles == 4 + 104 + wait  # the fifth copy, issued in cycle 4
    unwaited = profile_warp(nodes[:-1], scoreboard)
    assert unwaited.issue_end_cycles == 6
    assert unwaited.isolated_cycles == 4 + 104  # a copy that nothing waits for still ends


def test_commit_groups_do_not_wait() -> None:
    assert program("cp.async.commit_group")[0].reads == ()
    assert program("cp.async.wait_all")[0].reads != ()


# --- unknown opcodes ------------------------------------------------------------------------------

UNKNOWN = "frobnicate.b32 %r1, %r2, %r3"


def test_unknown_opcodes_are_refused_by_name() -> None:
    assert refused(UNKNOWN).code == "PW401"
    assert "frobnicate" in refused(UNKNOWN).message


def test_all_refusals_are_listed_at_once_in_order() -> None:
    costs = InstructionCosts(MACHINE)
    for index, instruction in reversed(
        list(enumerate(parsed("trap", "add.s32 %r1,%r1,1", UNKNOWN)))
    ):
        costs.nodes(index, instruction)
        costs.nodes(index, instruction)
    assert [d.code for d in refusals_of(costs.raise_refusals)] == ["PW402", "PW401"]


def test_the_worst_case_of_an_unknown_opcode_covers_every_row() -> None:
    """Before and after any instruction: at least as slow as the opcode would be on any row."""
    (unknown, _) = parsed(UNKNOWN)
    worst = charge_unknown(unknown, MACHINE)
    assert {node.unit for node in worst} == {unit.name for unit in MACHINE.units}
    rows = {row for row in MACHINE.timings.values() if isinstance(row, OpTiming)}
    for scoreboard in Scoreboard:
        for unit in MACHINE.units:
            before = TimedInstruction(unit.name, 3, 5, (), ("%r2",))
            after = TimedInstruction(unit.name, 2, 9, ("%r1", "%r3"))
            bound = profile_warp((before, *worst, after), scoreboard).isolated_cycles
            for row in rows:
                real = TimedInstruction(
                    row.unit,
                    row.initiation_cycles,
                    row.latency_cycles,
                    ("%r2", "%r3"),
                    ("%r1",),
                )
                run = profile_warp((before, real, after), scoreboard).isolated_cycles
                assert run <= bound


def test_charging_unknown_opcodes_is_recorded() -> None:
    costs = InstructionCosts(MACHINE, unknown_at_worst=True)
    instructions = parsed("add.s32 %r1,%r1,1", UNKNOWN)
    costs.nodes(0, instructions[0])
    assert not costs.charged_unknown
    assert len(costs.nodes(1, instructions[1])) == len(MACHINE.units)
    assert costs.charged_unknown
    costs.raise_refusals()


RESULTS = """.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u32 n)
{
.reg .b32 %r<9>; .reg .pred %p<3>;
mov.u32 %r1, 0; mov.u32 %r5, 0;
L: add.u32 %r1, %r1, 1;
WRITING
setp.lt.u32 %p1, %r1, 10;
@%p1 bra L;
ret;
}
"""


@pytest.mark.parametrize(
    ("writing", "writes"),
    [
        ("foo.b32 %r1, %r5;", ("%r1",)),
        ("foo.b32 {%r2, %r1}, %r5;", ("%r2", "%r1")),
        ("foo.b32 %r2|%r1, %r5;", ("%r2", "%r1")),
        ("@%p1 foo.b32 {%r2, %r1}, %r5;", ("%r2", "%r1")),
        ("foo.b32 4, %r1, %r5;", ("%r1",)),
    ],
)
def test_an_unknown_opcode_may_write_all_of_its_first_operand(
    tmp_path: Path, writing: str, writes: tuple[str, ...]
) -> None:
    text = RESULTS.replace("WRITING", writing)
    (kernel,) = parse_text(text).kernels
    (unknown,) = (one for one in kernel.instructions if not one.is_known)
    assert unknown.writes == writes
    path = tmp_path / "loop.ptx"
    path.write_text(text, encoding="utf-8")
    (problem, *_) = only_refusal(Request(str(path), block="32", unknown_at_worst=True)).diagnostics
    assert problem.code == "PW203"  # nobody knows how often the loop runs


@pytest.mark.parametrize("name", ["ampere-realistic", "a100", "h100"])
def test_a_form_has_figures_of_its_own_and_its_class_all_others(name: str) -> None:
    machine = load_machine(name)

    def charged(statement: str) -> tuple[int, int]:
        (instruction, _) = parsed(statement)
        found = cost_instruction(instruction, machine)
        assert isinstance(found, TimedInstruction)
        return found.initiation_cycles, found.latency_cycles

    row = machine.timings[OpClass.FP32_SFU]
    assert isinstance(row, OpTiming)
    own = (row.initiation_cycles, row.latency_cycles)
    for function in ("ex2", "lg2", "rcp", "rsqrt", "sqrt"):
        faster = charged(f"{function}.approx.ftz.f32 %f1, %f2")
        assert faster == dict(row.forms)[f"{function}.approx.ftz.f32"]
        assert faster[0] == 8 < own[0]
        assert charged(f"{function}.approx.f32 %f1, %f2") == own  # scales what is subnormal
    for statement in ("sqrt.rn.ftz.f32 %f1, %f2", "sin.approx.ftz.f32 %f1, %f2"):
        assert charged(statement) == own


def test_what_a_machine_times_apart_is_one_instruction_of_it() -> None:
    """ptxas makes these of such forms: what else takes less would take longer than one of them."""
    known = set(PTX_FORMS.values())
    for machine in shipped_machines():
        for op, row in load_machine(machine).timings.items():
            # fences of a block are one, too, and what is done to an mbarrier (SYNCS)
            if isinstance(row, OpTiming) and not row.stalls and op is not OpClass.MBARRIER:
                own = (row.initiation_cycles, row.initiation_cycles + row.latency_cycles)
                less = {form for form, (a, b) in row.forms if a < own[0] or a + b < own[1]}
                assert {form.replace("shared::cta", "shared") for form in less} <= known


SILICON = ("ampere-realistic", "jetson-agx-orin", "rtx-4070", "titan-v", "a100", "h100", "h200")
# Of one statement: what it is made of on every architecture of ptxas 13.0, sm_75 to sm_90.
SEVERAL = {
    "mul.lo.s64 %rd1, %rd2, %rd3": 4,
    "mul.hi.u64 %rd1, %rd2, %rd3": 7,
    "mul.hi.s64 %rd1, %rd2, %rd3": 16,
    "mad.lo.u64 %rd1, %rd2, %rd3, %rd4": 5,
    "mad.hi.u64 %rd1, %rd2, %rd3, %rd4": 7,
    "mad.hi.s64 %rd1, %rd2, %rd3, %rd4": 16,
    "mad.hi.sat.s32 %r1, %r2, %r3, %r4": 6,
    "madc.hi.u32 %r1, %r2, %r3, %r4": 2,
    "mul24.hi.s32 %r1, %r2, %r3": 4,
    "mad24.hi.u32 %r1, %r2, %r3, %r4": 5,
    "mad24.hi.sat.s32 %r1, %r2, %r3, %r4": 9,
    "min.s64 %rd1, %rd2, %rd3": 6,
    "max.u64 %rd1, %rd2, %rd3": 6,
    "min.f64 %rd1, %rd2, %rd3": 11,
    "sad.u64 %rd1, %rd2, %rd3, %rd4": 10,
    "cnot.b64 %rd1, %rd2": 6,
    "add.sat.s32 %r1, %r2, %r3": 5,
    "bfe.s64 %rd1, %rd2, %r1, %r2": 12,
    "fns.b32 %r1, %r2, %r3, %r4": 50,
    "bfind.s64 %r1, %rd2": 9,
    "cvt.rn.sat.f64.s64 %rd1, %rd2": 14,
}


@pytest.mark.parametrize("name", SILICON)
def test_what_is_made_of_several_instructions_is_charged_for_all_of_them(name: str) -> None:
    """An H200 takes 2.1 to 3.9 cycles for each of a chain of them, and 1.3 to 3.6 to issue it."""
    machine = load_machine(name)
    for statement, several in SEVERAL.items():
        (instruction, _) = parsed(statement)
        found = cost_instruction(instruction, machine)
        assert isinstance(found, TimedInstruction)
        assert found.initiation_cycles >= 1.3 * several, statement
        assert found.initiation_cycles + found.latency_cycles >= 2.1 * several, statement


COUNTED = {"ampere-realistic": 80, "jetson-agx-orin": 86, "rtx-4070": 86, "titan-v": 75, "a100": 80}


@pytest.mark.parametrize("name", SILICON)
def test_no_form_is_charged_less_than_what_the_compiler_makes_of_it(name: str) -> None:
    """Each takes an issue slot, and in a chain about two cycles at least."""
    machine, target = load_machine(name), COUNTED.get(name, 90)
    rules = machine.expansion
    assert rules is not None
    assert rules.target.value == target
    checked = 0
    for statement in counted_forms():
        made = made_of(statement.split()[0].rstrip(";"), target)
        if made is None:
            continue
        try:
            found = cost_instruction(form(statement).instruction, machine)
        except PtxwcetError:
            continue  # roundings that ptxas takes and PTX does not have
        if not isinstance(found, TimedInstruction):
            continue
        checked += 1
        assert found.initiation_cycles >= sum(made), statement
        measured = name == "h200" and found.initiation_cycles < 3 * made[0]
        assert found.initiation_cycles + found.latency_cycles >= (1.7 if measured else 2.1) * sum(
            made
        )
        if made[2] and name in ("jetson-agx-orin", "rtx-4070"):
            assert found.initiation_cycles >= 32 * made[2], statement
    assert checked > 1_000


@cache
def counted_forms() -> list[str]:
    """What benchmarks/form_counts.py asks ptxas of, as far as it is in the table for a target."""
    path = ROOT / "benchmarks" / "form_counts.py"
    spec = importlib.util.spec_from_file_location("form_counts", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    targets = (75, 80, 86, 90)
    return [s for s in module.forms() if any(made_of(s.split()[0].rstrip(";"), t) for t in targets)]


def test_another_order_of_modifiers_is_made_of_as_many() -> None:
    assert made_of("cvt.rn.sat.f64.s64", 86) == made_of("cvt.sat.rn.f64.s64", 86)
    assert sum(made_of("cvt.sat.rn.f64.s64", 86) or ()) > 10
    assert made_of("add.u32", 86) is None
    assert made_of("no.such.form", 86) is None


@pytest.mark.parametrize(
    ("written", "listed"),
    [
        ("match.sync.any.b32 %r1, %r2, -1", "match.any.sync.b32 %r1, %r2, -1"),
        ("add.s32.sat %r1, %r2, %r3", "add.sat.s32 %r1, %r2, %r3"),
        ("mad.hi.s32.sat %r1, %r2, %r3, %r4", "mad.hi.sat.s32 %r1, %r2, %r3, %r4"),
        ("tanh.f16x2.approx %r1, %r2", "tanh.approx.f16x2 %r1, %r2"),
        (
            "ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%r1, %r2, %r3, %r4}, [%r5]",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5]",
        ),
    ],
)
def test_modifiers_in_another_order_cost_no_less(written: str, listed: str) -> None:
    """An H200 took up to ten times what such a spelling was charged (docs/machine-files.md)."""
    machine = load_machine("h200")
    found = [cost_instruction(parsed(one)[0], machine) for one in (written, listed)]
    first, second = (one for one in found if isinstance(one, TimedInstruction))
    assert first.initiation_cycles >= second.initiation_cycles
    whole = [one.initiation_cycles + one.latency_cycles for one in (first, second)]
    assert whole[0] >= whole[1]


@pytest.mark.parametrize("architecture", [80, 90])
def test_the_vendors_compiler_makes_one_instruction_of_each(architecture: int) -> None:
    """Listings of tests/data/sass/forms.ptx; what is never executed behind it is padding."""
    folder = DATA / "sass"
    forms = {}
    for kernel in (folder / "forms.ptx").read_text().split(".entry ")[1:]:
        (form,) = (word for word in kernel.split() if ".approx" in word or word[:4] == "mma.")
        forms[kernel.partition("(")[0]] = form
    made = {}
    for kernel in (folder / f"forms_{architecture}.sass").read_text().split(".kernel ")[1:]:
        lines = [line.split()[1] for line in kernel.splitlines()[1:] if line[:2] == "/*"]
        last_load = max(place for place, name in enumerate(lines) if name == "LDG.E")
        between = lines[last_load + 1 : lines.index("STG.E")]
        (made[kernel.split()[0]],) = (name for name in between if name not in ("NOP", "@!UPT"))
    listed = {made[kernel]: form for kernel, form in forms.items()}
    assert listed == {code: form for code, form in PTX_FORMS.items() if form in listed.values()}
