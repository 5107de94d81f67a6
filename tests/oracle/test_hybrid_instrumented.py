"""A trace that instrumented PTX dumps against a direct trace of the same launch: the same counts.

The emulator counts warp-instructions where the simulator counts cycles, so times differ; what each
warp passed, and everything that is counted from it, is the same.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from places import SAMPLES

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.trace.study import TraceOptions
from ptxwcet.methods.hybrid.study import HybridAnswer, HybridRequest, study_trace
from ptxwcet.methods.instrument.recording import (
    Emulator,
    InstrumentRequest,
    RecordRequest,
    import_dumps,
    instrument_file,
    record_launch,
    write_dump,
    write_instrumented,
)
from ptxwcet.opened.request import Request
from ptxwcet.trace.files import write_trace

LAUNCHES = (
    ("block_reduce", "block_reduce_tree"),
    ("scan", "scan"),
    ("bitonic_sort", "bitonic_sort"),
    ("mandelbrot", "mandelbrot"),
    ("loops", "loop_break"),
)


def recorded(ptx: Path, launch: Path, folder: Path) -> HybridAnswer:
    """Instrument, run on the emulator, import, analyse."""
    out, sidecar, dump = folder / "k.instr.ptx", folder / "k.json", folder / "k.bin"
    write_instrumented(instrument_file(InstrumentRequest(str(ptx))), out, sidecar)
    source = str(ptx.with_suffix(".cu"))
    request = RecordRequest(str(out), str(sidecar), str(launch), source)
    write_dump(record_launch(request, Emulator()), dump)
    write_trace(import_dumps(str(sidecar), [str(dump)]), folder / "t.npz")
    asked = HybridRequest(Request(str(ptx)), str(folder / "t.npz"), exceedances=())
    return study_trace(asked)


def counted(answer: HybridAnswer) -> dict[tuple[str, str], tuple[int, int]]:
    estimate = answer.estimate
    points = estimate.ipg.placement.ipoints
    found = {}
    for row in estimate.observations.transitions:
        transition = estimate.ipg.transitions[row.number]
        pair = (points[transition.source].label, points[transition.target].label)
        found[pair] = (row.count, row.most_count)
    return found


@pytest.mark.parametrize(("kernel", "launch"), LAUNCHES)
def test_both_traces_give_the_same_table(kernel: str, launch: str, tmp_path: Path) -> None:
    ptx, toml = SAMPLES / f"{kernel}.ptx", SAMPLES / f"launches/{launch}.toml"
    traced = Request(str(ptx), launch_file=str(toml))
    how = TraceOptions("lrr", GridWishes(1))
    direct = study_trace(HybridRequest(traced, None, how, ()))
    dumped = recorded(ptx, toml, tmp_path)
    assert dumped.trace.origin.clock == "instruction"
    assert counted(dumped) == counted(direct)
    mine, theirs = dumped.estimate, direct.estimate
    for one, other in zip(mine.observations.loops, theirs.observations.loops, strict=True):
        assert one.loop.header == other.loop.header
        assert (one.most_iterations, one.most_entries) == (
            other.most_iterations,
            other.most_entries,
        )
    assert mine.coverage == theirs.coverage
    assert (mine.warps, mine.events) == (theirs.warps, theirs.events)
    assert Counter(dumped.trace.warp.tolist()) == Counter(direct.trace.warp.tolist())
    assert mine.warp_wcet >= mine.observations.longest_warp
    assert mine.dynamic >= mine.concurrency.high_water_mark
    assert len(np.unique(dumped.trace.sm)) == 1
