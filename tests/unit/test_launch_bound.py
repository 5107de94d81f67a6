"""The bound of a whole launch as users get it: counts of blocks, residency, claims, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from answers import only_answer, only_refusal
from places import DATA, SAMPLES
from programs import run_program

from ptxwcet.bounds.grid import Dispatch, bound_grid
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.launch_bound import LaunchBound, count_blocks, kinds_of_blocks
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import AssumptionState, Guarantee, Refusal
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

MANY = "orin-ecrts2025-16sm"

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
# Blocks with an index below 5 run a loop of 40, the others leave at once; y decides nothing.
UNEVEN = """
.visible .entry uneven(.param .u64 p) {
  .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %d<2>;
  mov.u32 %r1, %ctaid.x;
  setp.gt.u32 %p1, %r1, 4;
  @%p1 bra END;
  mov.u32 %r2, 0;
LOOP:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 40;
  @%p2 bra LOOP;
END:
  ret;
}
"""
SHARED = """
.extern .shared .align 16 .b8 buffer[];
.visible .entry dynamic() {
  .reg .b32 %r<3>;
  mov.u32 %r1, buffer;
  st.shared.u32 [%r1], %r1;
  ret;
}
"""


def launched(path: Path | str, **said: Any) -> LaunchBound:
    """The bound of the launch of the only kernel that is asked for."""
    row = only_answer(Request(str(path), **said))
    assert isinstance(row.launch_bound, LaunchBound)
    return row.launch_bound


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "kernel.ptx"
    path.write_text(HEAD + text)
    return path


def problem(path: Path | str, **said: Any) -> tuple[str, str]:
    """Code and message of the only diagnostic of the only kernel."""
    row = only_refusal(Request(str(path), **said))
    (found,) = row.diagnostics
    return found.code, found.message


def test_the_launch_of_the_issue() -> None:
    launch = str(SAMPLES / "launches/sgemm_naive_1024.toml")
    bound = launched(SAMPLES / "sgemm_naive.ptx", launch_file=launch)
    # one block of 1,024 threads an SM: each waits for the one before
    assert bound.claim.cycles == 1_024 * 133_702
    assert (bound.blocks, bound.sms, bound.residency.least, bound.residency.most) == (1024, 1, 1, 1)
    assert bound.claim.guarantee is Guarantee.SAFE_BOUND
    keys = [one.key for one in bound.claim.assumptions]
    assert keys == ["no-other-kernels", "aligned-pointers"]
    many = launched(SAMPLES / "sgemm_naive.ptx", launch_file=launch, machine=MANY)
    # 63 blocks come before the last one on some SM, then its own
    assert many.claim.cycles == 64 * 133_702


def test_blocks_are_counted_by_what_they_execute(tmp_path: Path) -> None:
    path = written(tmp_path, UNEVEN)
    bound = launched(path, block="64", grid="100x7", gpu=GridWishes(resident_blocks=2))
    assert sorted(kind.count for kind in bound.kinds) == [35, 665]
    # a grid without long blocks, and one of long ones alone
    row = only_answer(Request(str(path), block="64", grid="100x7"))
    by_count = {piece.count: block_kind(piece.analysis, 1) for piece in row.pieces}
    long, short = by_count[35], by_count[665]
    assert long.work_cycles > 5 * short.work_cycles
    work = 35 * long.work_cycles + 665 * short.work_cycles
    assert bound.bound.work_cycles == work
    alike = launched(path, block="64", grid="5", gpu=GridWishes(resident_blocks=2))
    assert [kind.count for kind in alike.kinds] == [5]


def test_blocks_are_not_counted_for_a_range_of_a_parameter() -> None:
    path = SAMPLES / "vector_add.ptx"
    said: dict[str, Any] = {"block": "256", "grid": "8", "gpu": GridWishes(resident_blocks=2)}
    ranged = launched(path, parameters=("n=1..2048",), **said)
    (kind,) = ranged.kinds
    assert kind.count == 8
    for n in (1, 100, 256, 1_000, 2_047, 2_048):
        single = launched(path, parameters=(f"n={n}",), **said)
        assert single.claim.cycles <= ranged.claim.cycles
        assert sum(one.count for one in single.kinds) == 8


def test_counts_that_do_not_cover_the_grid_are_no_counts() -> None:
    row = only_answer(Request(str(SAMPLES / "vector_add.ptx"), block="256", grid="8"))
    paths = [piece.paths for piece in row.pieces]
    assert sum(count_blocks(paths, row.launch).values()) == 8
    assert count_blocks(paths[:0], row.launch) == {}


def test_without_registers_every_residency_counts() -> None:
    path = SAMPLES / "transpose_tiled.ptx"
    said: dict[str, Any] = {
        "kernels": ("transpose_tiled",),
        "block": "32x8",
        "grid": "32x32",
        "parameters": ("width=1024", "height=1024"),
        "machine": MANY,
    }
    bound = launched(path, **said)
    assert bound.residency.open == ("--registers",)
    assert (bound.residency.least, bound.residency.most) == (1, 6)
    kinds = bound.kinds
    each = [bound_grid(kinds, Dispatch(16, n, breadth_first=True)).cycles for n in range(1, 7)]
    assert (bound.claim.cycles, bound.least_cycles) == (max(each), min(each))
    # 255 registers: one block; 64: four; few: what the warps allow
    for registers, resident in ((255, 1), (64, 4), (16, 6)):
        known = launched(path, **said, gpu=GridWishes(registers=registers))
        assert (known.residency.least, known.residency.most) == (resident, resident)
        assert known.claim.cycles == each[resident - 1] == known.least_cycles
        assert "registers-per-thread" in {one.key for one in known.claim.assumptions}


def test_dynamic_shared_memory_that_nobody_says(tmp_path: Path) -> None:
    path = written(tmp_path, SHARED)
    said: dict[str, Any] = {"block": "32", "grid": "4"}
    bound = launched(path, **said, gpu=GridWishes(registers=16))
    assert bound.residency.open == ("--dynamic-shared",)
    assert (bound.residency.least, bound.residency.most) == (1, 16)
    launch = tmp_path / "launch.toml"
    launch.write_text('kernel = "dynamic"\nblock = 32\ngrid = 4\ndynamic_shared_bytes = 16000\n')
    known = launched(path, launch_file=str(launch), gpu=GridWishes(registers=16))
    assert (known.residency.least, known.residency.most) == (9, 9)
    assert known.residency.limited_by == ("shared memory",)
    option = GridWishes(registers=16, dynamic_shared=16_000)
    stated = launched(path, **said, gpu=option)
    assert (stated.claim, stated.residency) == (known.claim, known.residency)
    # the file says it always: nothing, if nothing else
    assert launched(path, launch_file=str(launch), gpu=option).claim == known.claim
    for text in (launch.read_text(), 'kernel = "dynamic"\nblock = 32\ngrid = 4\n'):
        launch.write_text(text)
        wishes = GridWishes(dynamic_shared=8_000)
        with pytest.raises(PtxwcetError) as refused:
            only_answer(Request(str(path), launch_file=str(launch), gpu=wishes))
        (contradiction,) = refused.value.diagnostics
        assert contradiction.code == "PW426"
        assert contradiction.message.startswith("--dynamic-shared 8000 contradicts ")
        assert contradiction.message.endswith("16000" if "16000" in text else " says 0")
    # without such a variable nothing is asked for: an assumption with a name
    other = launched(SAMPLES / "vector_add.ptx", block="256", grid="4")
    assert "no-dynamic-shared-memory" in {one.key for one in other.claim.assumptions}
    wishes = GridWishes(dynamic_shared=0)
    nothing = launched(SAMPLES / "vector_add.ptx", block="256", grid="4", gpu=wishes)
    assert nothing.claim.cycles == other.claim.cycles
    assert "no-dynamic-shared-memory" not in {one.key for one in nothing.claim.assumptions}
    more = problem(path, **said, gpu=GridWishes(dynamic_shared=49_153))
    reason = "shared memory (at most 49,152 bytes a block)"
    machine = "an SM of orin-ecrts2025-memory cannot hold one block of this launch"
    assert more == ("PW316", f"{machine}: {reason}")


def test_fewer_sms_are_an_assumption_and_more_are_refused() -> None:
    path, said = SAMPLES / "vector_add.ptx", {"block": "256", "grid": "64"}
    four = launched(path, **said, machine=MANY, gpu=GridWishes(sms=4))
    all_of_them = launched(path, **said, machine=MANY)
    assert four.claim.cycles > all_of_them.claim.cycles
    (stated,) = (one for one in four.claim.assumptions if one.key == "sms")
    assert stated.state is AssumptionState.ASSUMED
    assert "sms" not in {one.key for one in all_of_them.claim.assumptions}
    code, message = problem(path, **said, gpu=GridWishes(sms=2))
    assert (code, message) == ("PW319", "--sms 2: machine orin-ecrts2025-memory has 1 SM")


def test_blocks_that_do_not_fit_say_why(tmp_path: Path) -> None:
    path, said = SAMPLES / "vector_add.ptx", {"block": "1024", "grid": "64"}
    code, message = problem(path, **said, gpu=GridWishes(registers=128))
    assert code == "PW316"
    assert message.endswith("registers")
    code, message = problem(path, **said, gpu=GridWishes(resident_blocks=9))
    assert code == "PW316"
    assert "holds at most 1 blocks of this launch (warps)" in message
    limited = written(tmp_path, UNEVEN.replace("(.param .u64 p)", "(.param .u64 p) .maxnreg 32"))
    code, _ = problem(limited, block="64", grid="9", gpu=GridWishes(registers=40))
    assert code == "PW426"
    bound = launched(limited, block="1024", grid="9")
    assert bound.residency.open == ()  # 32 registers at most: one such block fits, not two


@pytest.mark.parametrize(
    ("machine", "reason"),
    [("ampere-realistic", "does not say how blocks of a launch start")],
)
def test_machines_that_do_not_say_how_blocks_start(machine: str, reason: str) -> None:
    request = Request(str(SAMPLES / "vector_add.ptx"), block="256", grid="64", machine=machine)
    row = only_answer(request)
    assert isinstance(row.launch_bound, Refusal)
    assert reason in row.launch_bound.reason


def test_kernels_whose_grids_are_not_bounded_keep_the_bound_of_a_block(tmp_path: Path) -> None:
    text = UNEVEN.replace("(.param .u64 p) {", "(.param .u64 p) .reqnctapercluster 2 {")
    file = written(tmp_path, text)
    file.write_text(file.read_text().replace(".target sm_80", ".target sm_90"))
    row = only_answer(Request(str(file), block="64", grid="8"))
    assert isinstance(row.launch_bound, Refusal)
    assert ".reqnctapercluster" in row.launch_bound.reason


def test_estimates_stay_estimates() -> None:
    said: dict[str, Any] = {"block": "256", "grid": "64", "machine": "rtx3070-gpgpusim"}
    bound = launched(SAMPLES / "vector_add.ptx", **said)
    assert bound.claim.guarantee is Guarantee.ESTIMATE
    assert bound.overhead_cycles == 0
    launch = str(SAMPLES / "launches/saxpy.toml")
    assert launched(SAMPLES / "saxpy.ptx", launch_file=launch).claim.guarantee is (
        Guarantee.SAFE_BOUND
    )


def test_figures_of_the_machine_file_enter(tmp_path: Path) -> None:
    machine = tmp_path / "mine.toml"

    def figure(name: str, value: int) -> str:
        return f'{name} = {{ value = {value}, evidence = "assumed", source = "mine" }}\n'

    def cycles(delay: int, gap: int, overhead: int) -> int:
        machine.write_text(
            'schema = 1\nextends = "orin-ecrts2025"\nname = "mine"\ndescription = "mine"\n'
            '[sources]\nmine = "a test"\n[dispatch]\n'
            + figure("delay_cycles", delay)
            + figure("gap_cycles", gap)
            + figure("launch_overhead_cycles", overhead)
        )
        path = SAMPLES / "vector_add.ptx"
        gpu = GridWishes(resident_blocks=1)
        return launched(path, block="256", grid="8", machine=str(machine), gpu=gpu).claim.cycles

    plain = cycles(0, 0, 0)
    assert cycles(0, 0, 5_000) == plain + 5_000
    assert cycles(0, 11, 0) == plain + 7 * 11
    assert cycles(3, 0, 0) == plain + 8 * 3


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and all that is printed."""
    ended = run_program(*arguments)
    return ended.code, ended.out + ended.err


def test_the_command(tmp_path: Path) -> None:
    vector_add = [str(SAMPLES / "vector_add.ptx"), "--block", "256", "--grid", "8"]
    code, text = run(*vector_add, "--resident-blocks", "2")
    assert code == 0
    assert "KERNEL     <= " in text
    assert "of the block: the block has its SM to itself" in text
    assert "of the kernel: an SM holds 2 blocks of this launch at a time [assumed]" in text
    code, text = run(*vector_add, "--format", "json", "--resident-blocks", "2")
    row = json.loads(text)["kernels"][0]["launch"]
    parts = ("work", "slack", "tail", "launcher", "overhead")
    assert sum(row[f"{part}_cycles"] for part in parts) == row["cycles"]
    code, text = run(*vector_add, "--quiet", "--resident-blocks", "2")
    assert text == f"vector_add 662 safe-bound {row['cycles']} safe-bound\n"
    code, text = run(*vector_add[:3])
    assert "KERNEL" not in text


def test_lines_pay_every_cycle_of_the_launch(tmp_path: Path) -> None:
    path = written(tmp_path, UNEVEN)
    uneven = [str(path), "--block", "64", "--grid", "100x7", "--registers", "16", "--explain"]
    sgemm = [str(SAMPLES / "sgemm_naive.ptx"), "--explain", "--machine", MANY, "--launch"]
    for arguments in (uneven, [*sgemm, str(SAMPLES / "launches/sgemm_naive_1024.toml")]):
        row = json.loads(run(*arguments, "--format", "json")[1])["kernels"][0]["launch"]
        for part, whole in (("work", "work"), ("latency", "slack"), ("tail", "tail")):
            assert sum(line[part] for line in row["lines"]) == row[f"{whole}_cycles"]
        assert sum(line["total"] for line in row["lines"]) == row["cycles"]
    assert "which lines pay the" in run(*uneven)[1]
    row = json.loads(run(*uneven, "--format", "json")[1])["kernels"][0]["launch"]
    work = {line["place"]: line["work"] for line in row["lines"]}
    # line 12 is the addition in the loop: 40 times in 2 warps of 35 blocks, 2 cycles each
    assert work["PTX line 12"] == 40 * 2 * 35 * 2


def test_budgets_are_of_the_launch_where_there_is_one() -> None:
    vector_add = [str(SAMPLES / "vector_add.ptx"), "--block", "256", "--budget"]
    assert run(*vector_add, "700")[0] == 0
    code, text = run(*vector_add, "700", "--grid", "8")
    assert code == 1
    assert "PW520" in text
    assert "the bound of the launch, " in text
    assert run(*vector_add, "block:700", "--grid", "8")[0] == 0
    code, text = run(*vector_add, "kernel:700")
    assert code == 1
    assert "PW522" in text
    assert "its grid is not known" in text
    estimate = [*vector_add, "700", "--grid", "8", "--machine", "ampere-realistic"]
    code, text = run(*estimate)
    assert code == 1
    assert "PW522" in text


def test_breadth_first_dispatch_is_used_only_where_it_is_not_doubtful(tmp_path: Path) -> None:
    machine = tmp_path / "mine.toml"

    def bound(state: str) -> LaunchBound:
        machine.write_text(
            'schema = 1\nextends = "orin-ecrts2025"\nname = "mine"\ndescription = "mine"\n'
            '[sources]\nmine = "a test"\n[occupancy]\n'
            'sms = { value = 4, evidence = "assumed", source = "mine" }\n[satisfies]\n'
            f'breadth-first-dispatch = {{ state = "{state}", source = "mine" }}\n'
        )
        path = SAMPLES / "vector_add.ptx"
        gpu = GridWishes(resident_blocks=4)
        return launched(path, block="256", grid="4", machine=str(machine), gpu=gpu)

    assumed, doubtful = bound("assumed"), bound("doubtful")
    (kind,) = assumed.kinds
    for found, in_turn in ((assumed, True), (doubtful, False)):
        dispatch = Dispatch(4, 4, breadth_first=in_turn)
        assert found.claim.cycles == bound_grid((kind,), dispatch).cycles
        stated = "breadth-first-dispatch" in {one.key for one in found.claim.assumptions}
        assert stated == in_turn
    assert doubtful.claim.cycles > assumed.claim.cycles
    assert doubtful.claim.guarantee is Guarantee.SAFE_BOUND


GUARDED = """
.visible .entry guarded(.param .u64 p) {
  .reg .pred %p<3>; .reg .b32 %r<4>;
  mov.u32 %r1, %ctaid.x;
  setp.gt.u32 %p1, %r1, 4;
  @%p1 bra END;
  bar.sync 0;
END:
  ret;
}
"""


def test_blocks_that_nobody_counts_have_the_largest_of_each_figure(tmp_path: Path) -> None:
    path = written(tmp_path, GUARDED)
    row = only_answer(Request(str(path), block="64", grid="9"))
    pieces = [piece.analysis for piece in row.pieces]
    assert len(pieces) == 2
    apart = [block_kind(one, 1) for one in pieces]
    assert sorted(len(one.stretches) for one in apart) == [1, 2]
    for order in (pieces, pieces[::-1]):
        (kind,) = kinds_of_blocks([(one, None) for one in order], (9, 1, 1))
        assert kind.count == 9
        assert [one.sections for one in kind.stretches] == [2]
        assert kind.slack_cycles == max(one.slack_cycles for one in apart)
        assert kind.work_cycles == max(one.work_cycles for one in apart)
        assert kind.busiest_cycles == max(one.busiest_cycles or 0 for one in apart)
    counted = kinds_of_blocks([(pieces[0], 5), (pieces[1], 4)], (9, 1, 1))
    assert [kind.count for kind in counted] == [5, 4]
    (short,) = kinds_of_blocks([(pieces[0], 5), (pieces[1], None)], (9, 1, 1))
    assert short.count == 9


WITH_MBARRIERS = """schema = 1
name = "orin-with-mbarriers"
description = "mbarriers as shared accesses"
extends = "orin-ecrts2025"
[sources]
bench = "of a test"
[ops]
mbarrier = { unit = "MEM", initiation_cycles = 4, latency_cycles = 25, evidence = "assumed", source = "bench" }
mbarrier_wait = { unit = "MEM", initiation_cycles = 4, latency_cycles = 25, rates = { try_wait = P, test_wait = P }, evidence = "assumed", source = "bench" }
"""  # noqa: E501


def test_a_launch_whose_warps_poll_mbarriers(tmp_path: Path) -> None:
    """Polls are a part of its bound; where they could take every cycle it has none."""
    machine = tmp_path / "machine.toml"
    asked = ("--kernel", "plain_ring", "--machine", str(machine), "--block", "128", "--grid", "12")
    kernel = ("bound", str(DATA / "mbarriers/mbarriers.ptx"), *asked, "--param", "tiles=5")
    machine.write_text(WITH_MBARRIERS.replace("P", "1000"))
    (row,) = json.loads(run_program(*kernel, "--format", "json").out)["kernels"]
    launch = row["launch"]
    assert launch["guarantee"] == "safe-bound"
    parts = ("work", "slack", "tail", "launcher", "memory", "overhead", "polling")
    assert launch["cycles"] == sum(launch[f"{part}_cycles"] for part in parts)
    assert 0 < launch["polling_cycles"] < launch["work_cycles"]
    shown = run_program(*kernel).out
    assert f"latency {launch['slack_cycles']:,} + polls {launch['polling_cycles']:,};" in shown
    machine.write_text(WITH_MBARRIERS.replace("P", "60"))
    refused = run_program(*kernel).out
    assert "not bounded as a whole: warps that ask mbarriers whether a phase is over" in refused
