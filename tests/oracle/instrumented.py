"""Runs a kernel as it is and instrumented, and holds the recorded points against executed paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import (
    EmulatedLaunch,
    EmulatorOptions,
    Execution,
    PathNode,
    PathStep,
)
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.methods.instrument.buffers import EMULATOR_CLOCK, prepare_buffer, written_part
from ptxwcet.methods.instrument.recording import RawDump, read_dumps
from ptxwcet.methods.instrument.rewriting import Sidecar, build_sidecar, instrument_module
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile
from ptxwcet.trace.events import TimedTrace

BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class Both:
    """The run of the original, the trace that the instrumented kernel gave, its buffers."""

    original: Execution
    trace: TimedTrace
    buffers: tuple[Any, ...]
    dump: bytes
    sidecar: Sidecar


def run_both(
    text: str,
    launch: EmulatedLaunch,
    places: Sequence[str] = (),
    kernel: str | None = None,
    size: int = BUFFER_BYTES,
) -> Both:
    """Raises PtxwcetError: what the run, the instrumentation or the import refuses."""
    module = parse_module(SourceFile("k.ptx", text))
    chosen = next(row for row in module.kernels if kernel in (None, row.name))
    limit = EmulatorOptions(record_paths=True, max_instructions=50_000)
    original = execute(chosen, module, launch, options=limit)
    added = instrument_module(module, [chosen], places)
    sidecar = build_sidecar(added, "k.ptx", "00")
    again = parse_module(SourceFile("k.instr.ptx", added.text))
    entry = next(row for row in again.kernels if row.name == chosen.name)
    identity = sidecar.identity(sidecar.kernels[0])
    buffer, chunks = prepare_buffer(size, launch.grid, launch.block, identity, EMULATOR_CLOCK)
    more = EmulatedLaunch(
        launch.block,
        launch.grid,
        (*launch.arguments, buffer, chunks),
        launch.variables,
        launch.dynamic_shared,
    )
    done = execute(entry, again, more, options=EmulatorOptions())
    assert {row.code for row in done.findings} == {row.code for row in original.findings}
    dump = written_part(done.buffers[-2])
    trace = read_dumps([RawDump("k.bin", dump)], sidecar)
    return Both(original, trace, done.buffers[:-2], dump, sidecar)


def recorded_paths(trace: TimedTrace) -> dict[int, list[str]]:
    """The labels that each warp passed, by warp, in order of time."""
    labels = [point.label for point in trace.ipoints]
    found: dict[int, list[str]] = {}
    for warp, point in zip(trace.warp.tolist(), trace.ipoint.tolist(), strict=True):
        found.setdefault(warp, []).append(labels[point])
    return found


def executed_paths(execution: Execution, warps_a_block: int) -> dict[int, list[str]]:
    """The same from the executed paths of the original: the blocks, then the end."""
    cfg = build_cfg(execution.kernel)
    return {
        row.block * warps_a_block + row.warp: [
            *(cfg.name(cfg.blocks[b].id) for b in _blocks(row.body)),
            "end",
        ]
        for row in execution.paths
    }


def _blocks(nodes: Sequence[PathNode]) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, PathStep):
            yield node.block
        else:
            for _ in range(node.repeats):
                yield from _blocks(node.body)


def check_same(text: str, launch: EmulatedLaunch, kernel: str | None = None) -> Both:
    """Paths and results of the instrumented kernel are those of the original; times increase."""
    both = run_both(text, launch, kernel=kernel)
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    assert recorded_paths(both.trace) == executed_paths(both.original, -(-threads // 32))
    for before, after in zip(both.original.buffers, both.buffers, strict=True):
        assert (before is None) == (after is None)
        if before is not None:
            np.testing.assert_array_equal(before, after)
    check_times(both.trace)
    return both


def check_times(trace: TimedTrace) -> None:
    """Events in order of time, strictly within a warp, from 0 on each multiprocessor."""
    assert (np.diff(trace.cycle) >= 0).all()
    for warp in np.unique(trace.warp):
        assert (np.diff(trace.cycle[trace.warp == warp]) > 0).all()
    for sm in np.unique(trace.sm):
        assert trace.cycle[trace.sm == sm].min() == 0
