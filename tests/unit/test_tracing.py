"""Traces of launches: paths as they were executed, times as simulated, dispatch as documented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from parsing import parse_file
from places import PACKAGE, SAMPLES
from refusals import refusal_of, refusals_of

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.run.study import execute_recorded, open_launch
from ptxwcet.commands.simulate.study import SimulationOptions, simulate_file
from ptxwcet.commands.trace.study import TracedLaunch, TraceOptions, trace_kernel, trace_launch
from ptxwcet.emulator.launch import PathNode, PathStep
from ptxwcet.emulator.layout import shared_bytes
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.opened.request import Request
from ptxwcet.simulator.grid import BlockRuns
from ptxwcet.support.diagnostics import PtxwcetError

LAUNCHES = (
    ("bitonic_sort", "bitonic_sort"),
    ("block_reduce", "block_reduce_tree"),
    ("histogram", "histogram"),
    ("loops", "loop_break"),
    ("loops", "loop_triangular"),
    ("mandelbrot", "mandelbrot"),
    ("saxpy", "saxpy"),
    ("scan", "scan_random"),
    ("sgemm_naive", "sgemm_naive"),
    ("stencil_2d", "stencil_2d"),
    ("transpose_tiled", "transpose_tiled"),
)


def request(sample: str, launch: str | Path) -> Request:
    path = SAMPLES / "launches" / f"{launch}.toml" if isinstance(launch, str) else launch
    return Request(str(SAMPLES / f"{sample}.ptx"), launch_file=str(path))


def events_of(traced: TracedLaunch, run: int = 0) -> list[tuple[int, int, int, int]]:
    """Cycle, SM, warp and point of the events of one run."""
    trace = traced.trace
    begin, *rest = [*trace.runs.tolist()[run:], len(trace)]
    part = slice(begin, rest[0])
    columns = (trace.cycle, trace.sm, trace.warp, trace.ipoint)
    return list(zip(*(column[part].tolist() for column in columns), strict=True))


def steps(body: Sequence[PathNode]) -> Iterator[int]:
    for node in body:
        if isinstance(node, PathStep):
            yield node.block
        else:
            for _ in range(node.repeats):
                yield from steps(node.body)


@pytest.mark.parametrize(("sample", "launch"), LAUNCHES)
def test_every_warp_passes_the_blocks_that_it_executed(sample: str, launch: str) -> None:
    asked = request(sample, launch)
    module = parse_file(asked.path)
    opened, _ = open_launch(asked, module)
    execution = execute_recorded(module, opened)
    cfg = build_cfg(execution.kernel)
    traced = trace_launch(asked, TraceOptions("gto", GridWishes(3)))
    labels = [point.label for point in traced.trace.ipoints]
    assert labels[-1] == "end"
    assert len(set(labels)) == len(labels)
    warps = traced.plan.occupancy.warps_per_block
    passed: dict[int, list[str]] = {}
    for _, _, warp, point in events_of(traced):
        passed.setdefault(warp, []).append(labels[point])
    for row in execution.paths:
        names = [cfg.name(cfg.blocks[block].id) for block in steps(row.body)]
        assert passed.pop(row.block * warps + row.warp) == [*names, "end"]
    assert not passed
    executed = trace_launch(asked, TraceOptions("gto", GridWishes(3), execute=True))
    assert executed.is_executed
    assert events_of(executed) == events_of(traced)
    for point in traced.trace.ipoints[:-1]:
        (block,) = [b for b in cfg.blocks if cfg.name(b.id) == point.label]
        assert execution.kernel.instructions[block.start].span.line == point.line


ONE_BLOCK = """kernel = "saxpy"
grid = 1
block = 160
registers_per_thread = 20
[arguments]
n = {n}
a = 2.5
x = {{ shape = 1000, dtype = "float32", init = "uniform", low = -1, high = 1, seed = 1 }}
y = {{ shape = 1000, dtype = "float32", init = "zeros" }}
"""


def saxpy(tmp_path: Path, text: str) -> Request:
    path = tmp_path / "launch.toml"
    path.write_text(text)
    return request("saxpy", path)


@pytest.mark.parametrize("policy", ["lrr", "gto", "random"])
@pytest.mark.parametrize("n", [1000, 77])
def test_one_block_has_the_times_of_a_simulated_block(policy: str, n: int, tmp_path: Path) -> None:
    asked = saxpy(tmp_path, ONE_BLOCK.format(n=n))
    traced = trace_launch(asked, TraceOptions(policy, seed=5, jitter_percent=30))
    options = SimulationOptions(policy, 5, 30, events=100_000, executed=True)
    (alone,) = simulate_file(asked, options).answered
    cfg = alone.prepared.cfg
    starts = {cfg.blocks[b].start: cfg.name(cfg.blocks[b].id) for b in cfg.reverse_postorder}
    labels = [point.label for point in traced.trace.ipoints]
    found = {(cycle, warp, labels[point]) for cycle, _, warp, point in events_of(traced)}
    issued = {
        (event.issue_cycle, event.warp, starts[event.origin])
        for event in alone.run.events
        if event.origin in starts
    }
    ended = {(warp.end_cycle, warp.warp, "end") for warp in alone.run.warps}
    assert found == issued | ended
    assert len(found) == len(traced.trace)
    assert traced.runs[0].cycles == alone.run.cycles


# --- dispatch -------------------------------------------------------------------------------------


def check_dispatch(blocks: BlockRuns, sms: int, resident: int, gap: int) -> None:
    """Each block runs once, in order, as soon as a slot is free, and no slot holds two."""
    rows = list(
        zip(
            *(column.tolist() for column in (blocks.sm, blocks.slot, blocks.start, blocks.end)),
            strict=True,
        )
    )
    starts = [row[2] for row in rows]
    assert starts == sorted(starts)
    free = {(sm, slot): 0 for sm in range(sms) for slot in range(resident)}
    turn, gate = 0, 0
    for sm, slot, start, end in rows:
        assert free[sm, slot] <= start < end
        assert start == max(gate, min(free.values()))  # work-conserving
        open_sms = {s for (s, _), since in free.items() if since <= start}
        assert sm == next((turn + k) % sms for k in range(sms) if (turn + k) % sms in open_sms)
        assert slot == min(n for (s, n), since in free.items() if s == sm and since <= start)
        free[sm, slot] = end
        turn, gate = (sm + 1) % sms, start + gap


@pytest.mark.parametrize(("sms", "resident", "gap"), [(3, 2, 0), (1, 1, 0), (2, 3, 7), (4, 1, 900)])
def test_blocks_are_dispatched_as_slots_fall_free(sms: int, resident: int, gap: int) -> None:
    options = TraceOptions("lrr", GridWishes(sms, resident, None, gap))
    traced = trace_launch(request("mandelbrot", "mandelbrot"), options)
    check_dispatch(traced.runs[0].blocks, sms, resident, gap)
    first: dict[int, int] = {}
    for cycle, sm, warp, _ in events_of(traced):
        block = warp // traced.plan.occupancy.warps_per_block
        assert sm == traced.runs[0].blocks.sm[block]
        first.setdefault(block, cycle)
    late = [first[b] - start for b, start in enumerate(traced.runs[0].blocks.start.tolist())]
    assert late[0] == 0 <= min(late)  # others may have the issue slot at the start
    assert resident > 1 or not any(late)
    keys = {assumption.key for assumption in traced.plan.assumptions}
    assert keys == {"resident-blocks", "sms", *(["launch-gap"] if gap else [])}


def test_the_first_wave_is_dealt_out_in_turn() -> None:
    traced = trace_launch(request("mandelbrot", "mandelbrot"), TraceOptions("lrr", GridWishes(3)))
    blocks = traced.runs[0].blocks
    assert blocks.sm.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert not blocks.start.any()
    assert (traced.plan.waves.waves, traced.plan.waves.blocks_per_wave) == (1, 3)


@pytest.mark.parametrize(("sms", "resident", "gap"), [(3, 2, 0), (4, 1, 900)])
def test_achieved_occupancy_counts_warps_cycle_by_cycle(sms: int, resident: int, gap: int) -> None:
    options = TraceOptions("lrr", GridWishes(sms, resident, None, gap))
    traced = trace_launch(request("mandelbrot", "mandelbrot"), options)
    (run,) = traced.runs
    warps = traced.plan.occupancy.warps_per_block
    last = {warp: cycle for cycle, _, warp, _ in events_of(traced)}
    alive: Counter[tuple[int, int]] = Counter()
    for block, (sm, start) in enumerate(zip(run.blocks.sm, run.blocks.start, strict=True)):
        for warp in range(block * warps, (block + 1) * warps):
            alive.update((int(sm), cycle) for cycle in range(start, last[warp]))
    assert run.active_warps == sum(alive.values()) / len(alive)
    assert 0 < run.active_warps <= resident * warps


# --- runs -----------------------------------------------------------------------------------------


def test_runs_have_other_inputs() -> None:
    asked = request("scan", "scan_random")
    traced = trace_launch(asked, TraceOptions("lrr", GridWishes(2), runs=3))
    assert len(traced.runs) == len(traced.trace.runs) == 3
    assert traced.trace.runs.tolist() == [0, *np.cumsum([len(r.cycle) for r in traced.runs])[:-1]]
    alone = trace_kernel(asked, TraceOptions("lrr", GridWishes(2)))
    assert events_of(traced) == list(
        zip(*(c.tolist() for c in (alone.cycle, alone.sm, alone.warp, alone.ipoint)), strict=True)
    )


def test_a_loop_that_depends_on_data_differs_between_runs(tmp_path: Path) -> None:
    path = tmp_path / "launch.toml"
    text = (SAMPLES / "launches" / "loop_break.toml").read_text()
    drawn = 'init = "uniform", low = -0.02, high = 1, seed = 1'
    path.write_text(text.replace('init = "arange", start = 59.5, step = -1', drawn))
    traced = trace_launch(request("loops", path), TraceOptions("lrr", runs=6))
    assert len({len(run.cycle) for run in traced.runs}) > 1


@pytest.mark.parametrize("sample", ["mandelbrot", "saxpy"])  # executed, known without
def test_jitter_differs_between_runs_and_is_repeatable(sample: str) -> None:
    asked = request(sample, sample)
    options = TraceOptions("lrr", runs=2, jitter_percent=20, seed=3)
    one, two = trace_launch(asked, options), trace_launch(asked, options)
    assert events_of(one, 0) != events_of(one, 1)
    assert events_of(one, 1) == events_of(two, 1)
    later = trace_launch(asked, TraceOptions("lrr", jitter_percent=20, seed=4))
    assert events_of(one, 1) == events_of(later)


def test_known_paths_are_timed_once_and_repeated() -> None:
    traced = trace_launch(request("saxpy", "saxpy"), TraceOptions("lrr", runs=3))
    assert not traced.is_executed
    assert traced.runs[0] is traced.runs[2]
    assert events_of(traced, 0) == events_of(traced, 1) == events_of(traced, 2)


def test_runs_that_would_be_the_same_are_refused() -> None:
    asked = request("mandelbrot", "mandelbrot")
    with pytest.raises(PtxwcetError, match=r"2 runs of .* would all be the same") as caught:
        trace_kernel(asked, TraceOptions("gto", runs=2))
    assert caught.value.diagnostics[0].code == "PW691"
    assert len(trace_kernel(asked, TraceOptions("random", runs=2)).runs) == 2


def test_all_runs_together_may_have_so_many_events() -> None:
    asked = request("scan", "scan_random")
    events = len(trace_kernel(asked, TraceOptions("lrr", runs=2)))
    trace_kernel(asked, TraceOptions("lrr", runs=2, most_events=events))
    assert (
        refusal_of(trace_kernel, asked, TraceOptions("lrr", runs=2, most_events=events - 1)).code
        == "PW690"
    )


def test_progress_counts_the_blocks_of_all_runs() -> None:
    seen: list[tuple[int, int, int]] = []
    trace_launch(
        request("scan", "scan_random"),
        TraceOptions("lrr", runs=3),
        lambda *row: seen.append(row),
    )
    assert {row[1] for row in seen} == {6}
    assert [row[0] for row in seen] == sorted(row[0] for row in seen)
    assert [row[2] for row in seen] == sorted(row[2] for row in seen)


# --- what limits the grid -------------------------------------------------------------------------


def test_registers_come_from_the_option_or_the_launch_file(tmp_path: Path) -> None:
    text = ONE_BLOCK.format(n=10).replace("= 20", "= 100")
    traced = trace_launch(saxpy(tmp_path, text), TraceOptions("lrr"))
    assert traced.plan.occupancy.resident_blocks == 65536 // 4 // (104 * 32) * 4 // 5
    (assumption, _) = traced.plan.assumptions
    assert "launch.toml:4:1" in assumption.source
    same = trace_launch(saxpy(tmp_path, text), TraceOptions("lrr", GridWishes(registers=100)))
    assert same.plan.occupancy.resident_blocks == traced.plan.occupancy.resident_blocks
    with pytest.raises(PtxwcetError, match=r"--registers 40 contradicts .*launch.toml:4:1") as why:
        trace_launch(saxpy(tmp_path, text), TraceOptions("lrr", GridWishes(registers=40)))
    assert why.value.diagnostics[0].code == "PW426"


def test_registers_of_maxnreg_and_shared_memory(tmp_path: Path) -> None:
    text = (SAMPLES / "saxpy.ptx").read_text()
    assert "\n)\n{" in text
    path = tmp_path / "saxpy.ptx"
    path.write_text(text.replace("\n)\n{", "\n)\n.maxnreg 128\n{", 1))
    (tmp_path / "launch.toml").write_text(
        "dynamic_shared_bytes = 40000\n"
        + ONE_BLOCK.format(n=10)
        .replace("registers_per_thread = 20\n", "")
        .replace("n =", "0 =")
        .replace("a =", "1 =")
        .replace("x =", "2 =")
        .replace("y =", "3 =")
    )
    asked = Request(str(path), launch_file=str(tmp_path / "launch.toml"))
    traced = trace_launch(asked, TraceOptions("lrr"))
    limits = {row.resource: row.blocks for row in traced.plan.occupancy.limits}
    assert limits["registers"] == 16 // 5
    assert limits["shared memory"] == 167936 // (40064 + 1024)
    assert traced.plan.assumptions[0].source == ".maxnreg of kernel saxpy"


SHARED = """.version 9.0
.target sm_90
.address_size 64
.shared .align 4 .b8 mine[100];
.shared .align 4 .b8 of_another[5000];
.visible .entry uses(.param .u32 n)
{
  .shared .align 16 .b8 own[32];
  .reg .b32 %r<4>;
  mov.u32 %r1, mine; mov.u32 %r2, own;
  st.shared.u32 [%r1], %r2; st.shared.u32 [%r2], %r1;
  ret;
}
"""


def test_shared_variables_that_the_kernel_names(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(SHARED)
    (tmp_path / "l.toml").write_text("grid = 1\nblock = 1\n[arguments]\nn = 1\n")
    module = parse_file(tmp_path / "k.ptx")
    (kernel,) = module.kernels
    assert shared_bytes(kernel, module, 0) == 112 + 32
    assert shared_bytes(kernel, module, 10) == 112 + 32 + 10
    asked = Request(str(tmp_path / "k.ptx"), launch_file=str(tmp_path / "l.toml"))
    limits = trace_launch(asked, TraceOptions("lrr")).plan.occupancy.limits
    (shared,) = [row.blocks for row in limits if row.resource == "shared memory"]
    assert shared == 167936 // (1280)


def test_sms_of_the_machine_file_or_the_option(tmp_path: Path) -> None:
    assert trace_launch(request("saxpy", "saxpy"), TraceOptions("lrr")).plan.shape.sms == 1
    machine = tmp_path / "mine.toml"
    base = PACKAGE / "machine/models/orin-ecrts2025.toml"
    before, _, after = base.read_text().partition("[occupancy]")
    machine.write_text(before + "[units]" + after.partition("[units]")[2])
    launch = str(SAMPLES / "launches" / "saxpy.toml")
    asked = Request(str(SAMPLES / "saxpy.ptx"), machine=str(machine), launch_file=launch)
    for options in (
        TraceOptions("lrr", GridWishes(2)),
        TraceOptions("lrr", GridWishes(resident_blocks=2)),
    ):
        with pytest.raises(PtxwcetError, match="does not say how many blocks run at once"):
            trace_launch(asked, options)
    traced = trace_launch(asked, TraceOptions("lrr", GridWishes(2, 1)))
    assert (traced.plan.shape.sms, traced.plan.shape.resident_blocks) == (2, 1)


def test_a_return_that_is_not_issued_is_passed_all_the_same(tmp_path: Path) -> None:
    machine = tmp_path / "mine.toml"
    machine.write_text(
        'schema = 1\nextends = "orin-ecrts2025"\nname = "mine"\nissues_return = false\n'
    )
    launch = str(SAMPLES / "launches" / "saxpy.toml")
    asked = Request(str(SAMPLES / "saxpy.ptx"), machine=str(machine), launch_file=launch)
    traced = trace_launch(asked, TraceOptions("lrr", GridWishes(2)))
    usual = trace_launch(request("saxpy", "saxpy"), TraceOptions("lrr", GridWishes(2)))
    assert len(traced.trace) == len(usual.trace)
    labels = [point.label for point in traced.trace.ipoints]
    for warp in range(8):
        mine = [row for row in events_of(traced) if row[2] == warp]
        assert [labels[row[3]] for row in mine][-2:] == ["$L__BB0_3", "end"]
        assert mine[-2][0] < mine[-1][0]


EMPTY = """.version 9.0
.target sm_90
.address_size 64
.visible .entry nothing()
{
}
.visible .entry spin(.param .u64 p)
{
  .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %d<2>;
  ld.param.u64 %d1, [p];
LOOP: ld.global.u32 %r1, [%d1]; setp.ne.u32 %p1, %r1, 0; @%p1 bra LOOP;
  ret;
}
"""


@pytest.mark.parametrize(
    ("launch", "code"),
    [
        ('kernel = "nothing"\n', "PW692"),
        ('kernel = "spin"\n[arguments]\np = { dtype = "uint32", values = [1] }\n', "PW411"),
    ],
)
def test_kernels_without_instructions_or_end(launch: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(EMPTY)
    (tmp_path / "l.toml").write_text("grid = 3\nblock = 40\n" + launch)
    asked = Request(str(tmp_path / "k.ptx"), launch_file=str(tmp_path / "l.toml"))
    assert [
        problem.code
        for problem in refusals_of(trace_kernel, asked, TraceOptions("lrr", max_instructions=1000))
    ] == [code]
