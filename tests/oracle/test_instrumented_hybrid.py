"""Hybrid analysis of dumps against that of direct traces: the same table.

The emulator has no time, so what its dumps say of transitions, counts, loops and coverage is
compared as it is; for the times, the clocks of a dump's records are set to those of a simulated
GPU, as if its clocks had been read. Then every figure of the table must come out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from flow_graphs import loops_in
from parsing import parse_file
from refusals import refusals_of
from test_instrumented_paths import LAUNCH_FILES, SAMPLES, sample_of

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.trace.study import TraceOptions, trace_launch
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.methods.hybrid.estimate import HybridEstimate, estimate_kernel
from ptxwcet.methods.instrument.recording import (
    Emulator,
    InstrumentRequest,
    RawDump,
    RecordRequest,
    instrument_file,
    read_dumps,
    record_launch,
    write_instrumented,
)
from ptxwcet.methods.instrument.rewriting import Sidecar, read_sidecar
from ptxwcet.opened.opening import file_digest
from ptxwcet.opened.request import Request
from ptxwcet.trace.events import TimedTrace


@dataclass(frozen=True)
class Recorded:
    """A sample's dump with all that describes it."""

    path: Path
    dump: bytes
    sidecar: Sidecar

    @property
    def trace(self) -> TimedTrace:
        return read_dumps([RawDump("d", self.dump)], self.sidecar)


def record(launch: Path, folder: Path, *places: str) -> Recorded:
    path = sample_of(launch)
    out, sidecar = folder / "k.ptx", folder / "k.json"
    write_instrumented(instrument_file(InstrumentRequest(str(path), (), places)), out, sidecar)
    source = path.with_suffix(".cu")
    names = str(source) if source.exists() else None
    request = RecordRequest(str(out), str(sidecar), str(launch), names, 1 << 20)
    done = record_launch(request, Emulator())
    return Recorded(path, done.dump, read_sidecar(sidecar.read_bytes(), "k.json"))


def trace_directly(launch: Path, **options: int) -> TimedTrace:
    request = Request(str(sample_of(launch)), launch_file=str(launch))
    return trace_launch(request, TraceOptions("lrr", GridWishes(**options))).trace


def estimate(path: Path, trace: TimedTrace) -> HybridEstimate:
    module = parse_file(path)
    kernel = next(row for row in module.kernels if row.name == trace.origin.kernel)
    kernel = inline_calls(kernel, module)
    cfg = build_cfg(kernel)
    forest = loops_in(cfg)
    return estimate_kernel(kernel, cfg, forest, trace, "trace", file_digest(str(path)))


def shape(found: HybridEstimate) -> tuple[object, ...]:
    """Everything of an estimate that is no time, points by name."""
    points = [point.label for point in found.ipg.placement.ipoints]
    pairs = [(points[t.source], points[t.target]) for t in found.ipg.transitions]
    seen = found.observations
    coverage = found.coverage
    return (
        {pairs[row.number]: (row.count, row.most_count) for row in seen.transitions},
        {row.loop.header: (row.most_iterations, row.most_entries) for row in seen.loops},
        (coverage.transitions, coverage.seen, coverage.divergent, coverage.divergent_seen),
        {pairs[number] for number in coverage.unseen},
        (found.runs, found.warps, found.events),
    )


def table(found: HybridEstimate) -> tuple[object, ...]:
    """The row of [B] Table II, the parameters of both equations, and the times of transitions."""
    points = [point.label for point in found.ipg.placement.ipoints]
    pairs = [(points[t.source], points[t.target]) for t in found.ipg.transitions]
    concurrency = found.concurrency
    return (
        concurrency.high_water_mark,
        found.warp_wcet,
        found.dynamic,
        found.hybrid,
        concurrency.release_jitter,
        concurrency.waves,
        concurrency.first_gap,
        {
            pairs[row.number]: (row.best, row.worst, row.values.tolist(), row.counts.tolist())
            for row in found.observations.transitions
        },
    )


@pytest.mark.every(2)
@pytest.mark.parametrize("launch", LAUNCH_FILES, ids=lambda path: path.stem)
def test_samples_have_the_same_transitions_counts_and_loops(launch: Path, tmp_path: Path) -> None:
    recorded = record(launch, tmp_path)
    direct = trace_directly(launch, sms=2)
    assert set(recorded.trace.ipoints) <= set(direct.ipoints)
    assert shape(estimate(recorded.path, recorded.trace)) == shape(estimate(recorded.path, direct))


def with_times_of(recorded: Recorded, direct: TimedTrace) -> bytes:
    """The dump as a GPU with the clocks of ``direct`` would have written it, at twice the rate.

    Each multiprocessor's clock has an offset of its own. What an earlier end of some lanes has, and
    the direct trace has not, gets the odd tick after the event before it.
    """
    events: dict[int, list[tuple[int, int]]] = {}
    for warp, cycle, sm in zip(direct.warp, direct.cycle, direct.sm, strict=True):
        events.setdefault(int(warp), []).append((int(cycle), int(sm)))
    data = bytearray(recorded.dump)
    places: dict[int, list[tuple[int, int]]] = {}
    for place in range(64, len(data), 16):
        code, warp, clock = struct.unpack_from("<IIQ", data, place)
        if code & 0xFFFF == 0xFFFF:
            struct.pack_into("<I", data, place, 0xFFFF | events[warp][0][1] << 16)
        elif code:
            places.setdefault(warp, []).append((clock, place))
    (end,) = {len(kernel.ipoints) for kernel in recorded.sidecar.kernels}
    for warp, rows in places.items():
        times = iter(events[warp])
        tick = 0
        for number, (_, place) in enumerate(sorted(rows)):
            code = struct.unpack_from("<I", data, place)[0] & 0xFFFF
            sm = events[warp][0][1]
            if code == end and number < len(rows) - 1:
                tick += 1
            else:
                tick = 2 * next(times)[0]
            struct.pack_into("<IIQ", data, place, code | sm << 16, warp, tick + 10**6 * (sm + 3))
        assert next(times, None) is None
    return bytes(data)


@pytest.mark.parametrize(
    "name", ["saxpy", "mandelbrot", "scan_random", "transpose_tiled", "histogram", "stencil_2d"]
)
@pytest.mark.parametrize("sms", [1, 3])
def test_the_table_is_that_of_the_direct_trace(name: str, sms: int, tmp_path: Path) -> None:
    launch = SAMPLES / "launches" / f"{name}.toml"
    recorded = record(launch, tmp_path)
    direct = trace_directly(launch, sms=sms, resident_blocks=2)
    dump = with_times_of(recorded, direct)
    imported = read_dumps([RawDump("d", dump)], recorded.sidecar)
    doubled = replace(direct, cycle=2 * direct.cycle)
    assert table(estimate(recorded.path, imported)) == table(estimate(recorded.path, doubled))


def test_a_trace_with_few_points_has_the_loops_all_the_same(tmp_path: Path) -> None:
    launch = SAMPLES / "launches" / "scan_random.toml"
    whole = estimate(sample_of(launch), record(launch, tmp_path).trace)
    few = record(launch, tmp_path, "$L__BB0_2")
    assert [point.label for point in few.trace.ipoints] == ["entry", "$L__BB0_2", "end"]
    loops = {row.loop.header: row.most_iterations for row in whole.observations.loops}
    found = estimate(few.path, few.trace)
    assert {row.loop.header: row.most_iterations for row in found.observations.loops} == loops


def test_a_dump_of_another_kernel_is_refused_by_the_analysis(tmp_path: Path) -> None:
    trace = record(SAMPLES / "launches" / "scan.toml", tmp_path).trace
    other = replace(trace, origin=replace(trace.origin, kernel="saxpy"))
    assert [row.code for row in refusals_of(estimate, SAMPLES / "saxpy.ptx", other)] == ["PW607"]


def test_times_of_a_lone_warp_are_its_instructions_and_the_cost_of_points(tmp_path: Path) -> None:
    """The emulator's clock counts instructions; a point costs twenty, in each transition once."""
    recorded = record(SAMPLES / "launches" / "loop_up.toml", tmp_path)
    trace = recorded.trace
    module = parse_file(recorded.path)
    kernel = next(row for row in module.kernels if row.name == trace.origin.kernel)
    cfg = build_cfg(kernel)
    sizes = {cfg.name(block.id): block.end - block.start for block in cfg.blocks}
    assert len(np.unique(trace.warp)) == 1
    for source, begin, target, end in zip(
        trace.ipoint, trace.cycle, trace.ipoint[1:], trace.cycle[1:], strict=False
    ):
        size = sizes[trace.ipoints[source].label]
        ends = trace.ipoints[target].label == "end"  # the point of the end stands before ret
        assert end - begin == 20 + size - ends
