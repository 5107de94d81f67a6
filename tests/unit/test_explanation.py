"""Which lines pay a bound: by hand, and adding up on every sample."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import jsonschema
import pytest
from click.testing import CliRunner
from places import ROOT

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.explanation import BoundExplanation, PaidCycles, explain_safe
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.commands.bound.command import bound
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import FunctionalUnit
from ptxwcet.opened.request import Request
from ptxwcet.timing import attribution
from ptxwcet.timing.attribution import CycleParts, attribute_warp
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Choice,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    TimedInstruction,
    Unordered,
    WarpClass,
    WarpProgram,
)

SCHEMA = schema_of("report")

SIZES = ("--param", "M=1024", "--param", "N=1024", "--param", "K=1024")


def timed(
    origin: int, unit: str, timing: tuple[int, int], reads: str = "", writes: str = ""
) -> TimedInstruction:
    return TimedInstruction(unit, *timing, tuple(reads), tuple(writes), origin=origin)


def guarded(origin: int, unit: str, timing: tuple[int, int], writes: str) -> TimedInstruction:
    return TimedInstruction(unit, *timing, (), tuple(writes), conditional=True, origin=origin)


# [J] Figs. 2 and 3: i0 on A, i1 and i2 on B, i3 on C reads the result of i0
GOLDEN = (
    timed(0, "A", (2, 6), writes="x"),
    timed(1, "B", (3, 4)),
    timed(2, "B", (3, 4)),
    timed(3, "C", (2, 4), reads="x"),
)


def explained(*classes: WarpClass, machine: str = "orin-ecrts2025") -> BoundExplanation:
    workload = BlockWorkload(classes, Scoreboard.RAW)
    analysis = analyse_block(workload, load_machine(machine))
    found = explain_safe(analysis)
    assert found.cycles == bound_safe(analysis).cycles
    assert_adds_up(found)
    return found


def assert_adds_up(found: BoundExplanation) -> None:
    assert sum(paid.total for paid in found.paid.values()) == found.cycles
    assert sum(one.multiplicity * one.cycles for one in found.sections) == found.cycles
    for section in found.sections:
        assert sum(paid.total for paid in section.paid.values()) == section.cycles
        assert all(min(paid) >= 0 for paid in section.paid.values())


def test_golden_warp() -> None:
    """Issues in 0, 1, 2; [3, 8) waits for i0, i3 issues in 8, [9, 14) waits for i3."""
    found = attribute_warp(GOLDEN, Scoreboard.RAW)
    assert found.cycles == 14
    assert found.parts == {
        0: CycleParts(1, 5, 0),
        1: CycleParts(1, 0, 0),
        2: CycleParts(1, 0, 0),
        3: CycleParts(1, 5, 0),
    }
    assert found.executions == {0: 1, 1: 1, 2: 1, 3: 1}


def test_golden_block() -> None:
    """SAFE is 14 + 10: the other warp pays its initiations 2, 3, 3, 2."""
    found = explained(WarpClass(WarpProgram(GOLDEN), (0, 1)))
    assert found.cycles == 24
    assert found.paid == {
        0: PaidCycles(1, 5, 0, 2),
        1: PaidCycles(1, 0, 0, 3),
        2: PaidCycles(1, 0, 0, 3),
        3: PaidCycles(1, 5, 0, 2),
    }


def test_warps_that_meet_at_a_barrier_of_a_part_share_by_their_initiations() -> None:
    """Two producers of 3 + 1 cycles and a consumer of 1 + 6: of 15 cycles each pays its part."""
    arrives = PartialBarrier(timed(1, "B", (1, 0)), "1", 3, waits=False)
    producers = WarpClass(WarpProgram((timed(0, "A", (3, 4)), arrives)), (0, 1))
    waits = PartialBarrier(timed(2, "B", (1, 0)), "1", 3)
    consumer = WarpClass(WarpProgram((waits, timed(3, "A", (6, 0)))), (2,))
    found = explained(producers, consumer)
    assert found.paid.keys() == {0, 1, 2, 3}
    for origin, weight in {0: 6, 1: 2, 2: 1, 3: 6}.items():
        paid = found.paid[origin]
        assert paid == PaidCycles(interference=paid.total)
        assert abs(15 * paid.total - weight * found.cycles) < 15


def test_interference_on_units_that_the_warp_does_not_use_is_an_issue_slot() -> None:
    """WUB of warp 0 is 10 + 1 (Z is not its unit), that of warp 1 is 6 + 1."""
    slow = WarpClass(WarpProgram((timed(0, "A", (1, 9)),)), (0,))
    other = WarpClass(WarpProgram((timed(1, "Z", (6, 0)),)), (1,))
    assert explained(slow, other).paid == {0: PaidCycles(1, 9, 0, 0), 1: PaidCycles(interference=1)}


def test_waiting_in_a_queue() -> None:
    """1 is dispatched in 5 behind 0; 2 may issue in 2, waits 3 cycles for its unit, 4 for it."""
    body = (
        timed(0, "A", (5, 0)),
        timed(1, "A", (1, 3), writes="x"),
        timed(2, "B", (1, 0), reads="x"),
    )
    found = attribute_warp(body, Scoreboard.RAW)
    assert found.parts == {0: CycleParts(1), 1: CycleParts(1, 4, 3), 2: CycleParts(1)}


def test_the_later_of_two_results_is_waited_for() -> None:
    body = (
        timed(0, "A", (1, 3), writes="x"),
        timed(1, "B", (1, 8), writes="y"),
        timed(2, "C", (1, 0), reads="xy"),
    )
    found = attribute_warp(body, Scoreboard.RAW)
    assert found.parts == {0: CycleParts(1), 1: CycleParts(1, 8), 2: CycleParts(1)}


def test_loop_by_hand() -> None:
    """Each of 10^18 iterations issues, then waits 7 cycles for what it reads in the next."""
    body = (Repeat(10**18, (timed(0, "A", (1, 7), "x", "x"),)),)
    found = attribute_warp(body, Scoreboard.RAW)
    assert found.parts == {0: CycleParts(10**18, 7 * 10**18)}
    assert found.executions == {0: 10**18}


def test_choice_charges_the_later_alternative() -> None:
    sides = ((timed(0, "A", (1, 2)),), (timed(1, "A", (1, 0)), timed(2, "A", (1, 0))))
    found = attribute_warp((Choice(sides), timed(3, "A", (1, 9))), Scoreboard.RAW)
    assert found.executions == {1: 1, 2: 1, 3: 1}
    assert found.cycles == 12


def test_a_register_of_a_choice_is_made_by_the_alternative_where_it_is_ready_later() -> None:
    """1 makes x ready in cycle 10; the cycle of issue is that of the first alternative."""
    sides = ((timed(0, "A", (1, 2), writes="x"),), (timed(1, "A", (1, 9), writes="x"),))
    found = attribute_warp((Choice(sides), timed(2, "B", (1, 0), reads="x")), Scoreboard.RAW)
    assert found.parts == {0: CycleParts(1), 1: CycleParts(0, 9), 2: CycleParts(1)}


def test_a_bubble_behind_the_last_issue_counts_only_before_a_barrier() -> None:
    jump = TimedInstruction("A", 1, 0, bubble_cycles=5, origin=1)
    body = (Choice(((timed(0, "A", (1, 0)),), (jump,))),)
    assert attribute_warp(body, Scoreboard.RAW).parts == {1: CycleParts(1)}
    found = attribute_warp(body, Scoreboard.RAW, through_bubble=True)
    assert found.parts == {1: CycleParts(6)}


def test_a_loop_repeats_only_when_the_same_instruction_is_waited_for() -> None:
    """In the first iteration 2 makes x as late as 3 (the prefix keeps its unit), later 3 alone."""
    prefix = timed(0, "A", (7, 0))
    body = (
        timed(1, "C", (1, 0), reads="x"),
        guarded(2, "A", (1, 8), "x"),
        guarded(3, "B", (1, 12), "x"),
        *[timed(4, "C", (1, 0))] * 4,
    )
    looped = attribute_warp((prefix, Repeat(50, body)), Scoreboard.RAW)
    assert looped == attribute_warp((prefix, *body * 50), Scoreboard.RAW)
    assert looped.parts[2] == CycleParts(50, 8)


def test_a_loop_repeats_only_when_what_is_waited_for_was_dispatched_alike() -> None:
    """In the first iteration x comes as late from B, whose prefix delays it, later from A."""
    prefix = timed(0, "B", (4, 0))
    body = (
        timed(1, "C", (1, 0), reads="x"),
        guarded(2, "B", (1, 14), "x"),
        timed(3, "A", (10, 0)),
        guarded(2, "A", (1, 5), "x"),
    )
    looped = attribute_warp((prefix, Repeat(50, body)), Scoreboard.RAW)
    assert looped == attribute_warp((prefix, *body * 50), Scoreboard.RAW)
    # 14 cycles an iteration: results alone at first, then 8 in the queue behind 3
    assert looped.parts[2] == CycleParts(100, 14 + 49 * 6, 49 * 8)


def test_loop_that_may_not_run_is_charged() -> None:
    body = (Repeat(5, (timed(0, "A", (1, 0)),), 0),)
    assert attribute_warp(body, Scoreboard.RAW).executions == {0: 5}


def test_both_sides_of_a_divergent_branch_are_executed() -> None:
    """The load first and its use at once: 100 + 1 + 2; the other order hides one cycle more."""
    load = (timed(0, "A", (1, 99), writes="x"), timed(1, "B", (1, 0), reads="x"))
    chain = (timed(2, "B", (1, 0)), timed(3, "B", (1, 0)))
    found = attribute_warp((Unordered(load, chain),), Scoreboard.RAW)
    assert found.executions == {0: 1, 1: 1, 2: 1, 3: 1}
    assert sum(parts.total for parts in found.parts.values()) == found.cycles == 103


def test_sections_multiply() -> None:
    wait = Barrier(timed(1, "B", (1, 0)))
    body: tuple[Node, ...] = (Repeat(7, (timed(0, "A", (2, 3)), wait)), timed(2, "A", (1, 1)))
    found = explained(WarpClass(WarpProgram(body), (0, 1, 2)))
    assert [one.multiplicity for one in found.sections] == [1, 6, 1]
    # a section: 0 issues, 1 issues, 3 cycles until 0 ends; two other warps with 2 + 1 each
    assert found.paid[0] == PaidCycles(7, 3 * 7, 0, 2 * 2 * 7)
    assert found.paid[1] == PaidCycles(7, 0, 0, 2 * 7)
    assert found.executions() == {0: {0: 7, 1: 7, 2: 1}}


def test_one_warp_is_explained_by_its_isolated_run() -> None:
    wait = Barrier(timed(1, "B", (1, 0)))
    body = (timed(0, "A", (1, 20)), wait, timed(2, "C", (1, 20)))
    found = explained(WarpClass(WarpProgram(body), (0,)))
    assert found.cycles == 23
    assert len(found.sections) == 1


def test_shared_units_pay_their_initiations() -> None:
    """Two sub-cores with one A for both and a B each: of the other warp only its A counts."""
    machine = replace(
        load_machine("orin-ecrts2025"),
        schedulers_per_sm=2,
        units=(FunctionalUnit("A", 1), FunctionalUnit("B", 2)),
        timings=MappingProxyType({}),
    )
    body = (timed(0, "A", (4, 0)), timed(1, "B", (3, 0)))
    workload = BlockWorkload((WarpClass(WarpProgram(body), (0, 1)),), Scoreboard.RAW)
    found = explain_safe(analyse_block(workload, machine))
    assert_adds_up(found)
    assert {origin: paid.interference for origin, paid in found.paid.items()} == {0: 4, 1: 0}


def sample_commands() -> list[list[str]]:
    table = (ROOT / "samples/README.md").read_text()
    return [shlex.split(text) for text in re.findall(r"`ptxwcet (samples/\S+ --[^`]*)`", table)]


@pytest.mark.parametrize("command", sample_commands(), ids=" ".join)
def test_samples_add_up(command: list[str]) -> None:
    """Through the command, as JSON: source lines, PTX lines and sections each give the bound."""
    path, *options = command
    arguments = [str(ROOT / path), *(str(ROOT / o) if "/" in o else o for o in options)]
    result = CliRunner().invoke(bound, [*arguments, "--explain", "--format", "json"])
    data = json.loads(result.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    kernels = [row for row in data["kernels"] if row["status"] == "bounded"]
    assert kernels
    for kernel in kernels:
        found = kernel["explanation"]
        assert found["cycles"] == kernel["bound_cycles"]
        for rows in (found["lines"], found["opcodes"], found["ptx_lines"]):
            assert sum(row["total"] for row in rows) == found["cycles"]
        assert sum(s["multiplicity"] * s["cycles"] for s in found["sections"]) == found["cycles"]
        for section in found["sections"]:
            assert sum(row["total"] for row in section["lines"]) == section["cycles"]


@pytest.mark.parametrize("machine", ["rtx3070-gpgpusim", "ampere-realistic"])
def test_sub_cores_and_shared_units_add_up(machine: str) -> None:
    for name in ("sgemm_double_buffered", "block_reduce"):
        path = str(ROOT / f"samples/{name}.ptx")
        parameters = ("K=1024",) if name.startswith("sgemm") else ("n=10000",)
        request = Request(path, block="256", parameters=parameters, machine=machine)
        for row in bound_file(request).answered:
            for piece in row.pieces:
                found = explain_safe(piece.analysis)
                assert found.cycles == piece.outcomes["safe"].cycles  # type: ignore[union-attr]
                assert_adds_up(found)


def worst_path(name: str, *options: str) -> dict[str, list[int]]:
    arguments = [str(ROOT / f"samples/{name}.ptx"), *options, "--format", "json"]
    (kernel,) = json.loads(CliRunner().invoke(bound, arguments).stdout)["kernels"]
    assert kernel["explanation"] is None
    counts: dict[str, list[int]] = {}
    for row in kernel["worst_path"]:
        counts.setdefault(row["block"], []).append(row["executions"])
    return counts


def test_block_counts() -> None:
    """K = 1024 in tiles of 32; the loop's block has two barriers and still counts once."""
    counts = worst_path("sgemm_naive", "--block", "32x32", "--param", "K=1024")
    assert counts == {"entry": [1], "block 1": [1], "$L__BB0_2": [32], "$L__BB0_3": [1]}


TWO_KINDS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry two_kinds()
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 32;
    @!%p1 bra meet;
    add.s32 %r1, %r1, 1;
    add.s32 %r1, %r1, 1;
    add.s32 %r1, %r1, 1;
meet:
    bar.sync 0;
    mov.u32 %r2, 0;
    @%p1 bra done;
    add.s32 %r2, %r2, 1;
    add.s32 %r2, %r2, 1;
done:
    ret;
}
"""


def test_a_block_that_a_barrier_cuts_counts_once(tmp_path: Path) -> None:
    """Warp 0 determines the section before the barrier, warp 1 the one behind it."""
    path = tmp_path / "two_kinds.ptx"
    path.write_text(TWO_KINDS)
    result = CliRunner().invoke(bound, [str(path), "--block", "64", "--format", "json"])
    rows = json.loads(result.stdout)["kernels"][0]["worst_path"]
    assert [(row["block"], row["executions"], row["warps"]) for row in rows] == [
        ("entry", 1, [0]),
        ("block 1", 1, [0]),
        ("meet", 1, [0]),
        ("block 3", 1, [1]),
        ("done", 1, [1]),
    ]


def test_block_counts_are_exact_however_large() -> None:
    """i from n - 1 down to 0."""
    n = 2_000_000_001
    options = ("-k", "loop_down", "--block", "64", "--param", f"n={n}")
    assert [n] in worst_path("loops", *options).values()


def test_text_shows_lines_and_their_source() -> None:
    arguments = [str(ROOT / "samples/sgemm_naive.ptx"), "--block", "32x32", *SIZES]
    text = CliRunner().invoke(bound, [*arguments, "--explain"]).stdout
    assert "which lines pay the 133,702 cycles of method safe" in text
    (row,) = re.findall(r"^  sgemm_naive\.cu:18 .* 104,262 .*$", text, re.MULTILINE)
    assert "sum += tileA" in row
    assert re.search(r"^  all lines .* 133,702  100\.0 %\n  share  .* 83\.1 %$", text, re.MULTILINE)
    assert re.search(r"^  ld\.shared\.f32 .* 52\.9 %  64 instructions$", text, re.MULTILINE)
    assert re.search(r"^   32 x   3,270 .* sgemm_naive\.cu:18 99\.0 %$", text, re.MULTILINE)
    plain = CliRunner().invoke(bound, [*arguments, "--details"]).stdout
    assert "which lines pay" not in plain
    assert re.search(r"^  \$L__BB0_2  sgemm_naive\.cu:13-19  32 x  0-31$", plain, re.MULTILINE)


def test_source_is_looked_up_beside_the_ptx_only(tmp_path: Path) -> None:
    """Without its .cu a line has no text; --source gives it back."""
    ptx = tmp_path / "saxpy.ptx"
    ptx.write_text((ROOT / "samples/saxpy.ptx").read_text())
    arguments = [str(ptx), "--block", "256", "--grid", "4", "--param", "0=1000", "--explain"]
    arguments += ["--format", "json"]
    source = ROOT / "samples/saxpy.cu"

    def texts(*options: str) -> set[str | None]:
        data = json.loads(CliRunner().invoke(bound, [*arguments, *options]).stdout)
        return {row["text"] for row in data["kernels"][0]["explanation"]["lines"]}

    assert texts() == {None}
    given = texts("--source", str(source))
    assert {line.strip() for line in source.read_text().splitlines()} >= given - {None}
    assert len(given) > 2


def test_source_that_is_no_text_does_no_harm(tmp_path: Path) -> None:
    """A folder of that name; control characters."""
    ptx = tmp_path / "other.ptx"
    ptx.write_text((ROOT / "samples/saxpy.ptx").read_text())
    arguments = [str(ptx), "--block", "256", "--grid", "4", "--param", "0=1000", "--explain"]
    source = tmp_path / "saxpy.cu"
    source.write_bytes(b"\x1b[31m\xff\tred\n" * 20)
    lines = CliRunner().invoke(bound, arguments).stdout.splitlines()
    assert any(line.endswith("%  ?[31m\ufffd red") for line in lines)
    source.unlink()
    source.mkdir()
    assert CliRunner().invoke(bound, arguments).exit_code == 0
    source.rmdir()
    os.mkfifo(source)  # reading it would never end
    assert CliRunner().invoke(bound, arguments).exit_code == 0


def test_without_line_information_ptx_lines_pay() -> None:
    path = str(ROOT / "tests/data/reference-sim/ptx/kernels.ptx")
    arguments = [path, "-k", "diverge", "--block", "32", "--param", "2=9"]
    text = CliRunner().invoke(bound, [*arguments, "--explain"]).stdout
    assert "PTX lines that pay most" not in text
    assert re.search(r"^  PTX line \d+ .* ld.global.u32 %r17, \[%rd6\];$", text, re.MULTILINE)


def test_waits_that_do_not_settle_leave_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution._Observed, "most_steps", 50)
    arguments = [str(ROOT / "samples/sgemm_naive.ptx"), "--block", "32x32", *SIZES]
    result = CliRunner().invoke(bound, [*arguments, "--explain"])
    assert "BOUND      133,702 cycles" in result.stdout
    assert "worst path and lines not given: what the warp waits for did not settle" in result.stdout


def test_accesses_stand_below_the_lines() -> None:
    """A warp of the naive transpose reads a row and writes a column: 4 and 32 sectors."""
    sizes = ("--param", "width=1024", "--param", "height=1024")
    arguments = [str(ROOT / "samples/transpose_naive.ptx"), "--block", "32x8", *sizes, "--explain"]
    text = CliRunner().invoke(bound, arguments).stdout
    assert re.search(r"^  transpose_naive\.cu:4 +store global 4 B +32 sectors +4 +", text, re.M)
    data = json.loads(CliRunner().invoke(bound, [*arguments, "--format", "json"]).stdout)
    rows = data["kernels"][0]["explanation"]["accesses"]
    assert [(row["purpose"], row["most"]["sectors"]) for row in rows] == [
        ("load", 4),
        ("store", 32),
    ]
    assert rows[1]["reason"] == "stride 4096 bytes between lanes"
