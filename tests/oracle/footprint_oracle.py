"""Sectors and lines that executions touch against footprints, and how often blocks execute."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from transaction_oracle import LINE, SECTOR, local_units, units

from ptxwcet.commands.run.study import emulated, read_launch
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions, ObservedAccess
from ptxwcet.emulator.layout import Layout
from ptxwcet.emulator.memory import BASE
from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Dim3, Launch
from ptxwcet.flow.walk.path import BlockPaths
from ptxwcet.ir.kernel import Kernel, Module, Space
from ptxwcet.machine.loader import load_machine
from ptxwcet.memory.executions import Executions
from ptxwcet.memory.footprint import Footprint, Footprints
from ptxwcet.memory.forms import Form, RunForms
from ptxwcet.memory.instructions import Purpose
from ptxwcet.memory.lanes import LaneAnalysis
from ptxwcet.opened.opening import open_request
from ptxwcet.opened.request import Request
from ptxwcet.pipeline import prepare_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.launch_costs import graph_of, kernel_accesses

Unit = tuple[object, ...]


@dataclass
class Touched:
    """The units of one size that each block touches: in local memory those of its own warps."""

    size: int
    of_block: dict[int, set[Unit]] = field(default_factory=lambda: defaultdict(set))

    def add(self, access: ObservedAccess) -> None:
        given = dict(access.addresses)
        if access.space == "global":
            self.of_block[access.block] |= {
                ("", one) for one in units(given, access.size, self.size)
            }
        elif access.space == "local":
            own = local_units(given, access.size, self.size)
            self.of_block[access.block] |= {(access.block, access.warp, one) for one in own}

    @property
    def block(self) -> int:
        return max(map(len, self.of_block.values()), default=0)

    @property
    def launch(self) -> int:
        return len(set().union(*self.of_block.values()))

    @property
    def is_shared(self) -> bool:
        return sum(map(len, self.of_block.values())) > self.launch


class Observer:
    """What is touched, by what the access changes, and how often warps execute instructions."""

    def __init__(self, chosen: frozenset[int] | None = None) -> None:
        self.sectors, self.lines = Touched(SECTOR), Touched(LINE)
        self.times: Counter[tuple[int, int, int, str]] = Counter()
        self._chosen = chosen

    def __call__(self, access: ObservedAccess) -> None:
        self.times[access.instruction, access.block, access.warp, access.space] += 1
        if self._chosen is None or access.instruction in self._chosen:
            self.sectors.add(access)
            self.lines.add(access)


class Places:
    """Whether lanes access memory where the forms of an access say, each by itself."""

    def __init__(self, graph: FlowGraph, stated: Launch, pieces: list[BlockPaths]) -> None:
        lanes = LaneAnalysis(graph, stated)
        found = RunForms(graph, stated, lanes, Executions(pieces))
        self.forms = {
            index: found.of_address(access.address, index)
            for index, access in lanes.accesses
            if access.address is not None and access.space is Space.GLOBAL
        }
        self.wrong: list[str] = []
        self.checked = 0
        self._sums = {
            form: sums_of(form.counts) for forms in self.forms.values() for form in forms or ()
        }
        self._grid = stated.grid or (1, 1, 1)

    def check(self, access: ObservedAccess, symbols: dict[str, int]) -> None:
        forms = self.forms.get(access.instruction)
        if forms is None or access.space != "global":
            return
        x, y, _ = self._grid
        index = access.block % x, access.block // x % y, access.block // (x * y)
        known = symbols | {f"%ctaid.{axis}": n for axis, n in zip("xyz", index, strict=True)}
        for form in forms:
            if self._sums[form] is None or not form.symbols.keys() <= known.keys():
                return
        self.checked += 1
        for lane, address in access.addresses:
            thread = 32 * access.warp + lane
            left = [
                (address - at(form, thread) - sum(known[s] * n for s, n in form.symbols.items()))
                for form in forms
            ]
            if not any(
                one in (self._sums[form] or ()) for one, form in zip(left, forms, strict=True)
            ):
                self.wrong.append(f"{access.instruction}: thread {thread} is {left} away")
                return


def at(form: Form, thread: int) -> int:
    return form.lanes if isinstance(form.lanes, int) else int(form.lanes[thread])


def sums_of(counts: tuple[tuple[int, int], ...]) -> set[int] | None:
    """All sums of multiples of steps; None if they are too many."""
    found = {0}
    for step, most in counts:
        if len(found) * (most + 1) > 50_000:
            return None
        found = {one + step * n for one in found for n in range(most + 1)}
    return found


@dataclass
class Compared:
    """What came of a launch: its footprint, what was touched, and what is wrong."""

    footprint: Footprint
    block_sectors: int
    launch_sectors: int
    checked: int = 0
    wrong: list[str] = field(default_factory=list)


def compared(
    kernel: Kernel, module: Module, stated: Launch, given: EmulatedLaunch
) -> Compared | None:
    """A launch analysed and executed; None if its paths are refused."""
    whole = inline_calls(kernel, module)
    try:
        prepared = prepare_kernel(whole, stated, load_machine("orin-ecrts2025"))
    except PtxwcetError:
        return None
    graph, pieces = graph_of(whole, stated), [one.paths for one in prepared.pieces]
    accesses = kernel_accesses(whole, stated)
    footprints = Footprints(graph, stated, accesses, pieces)
    if not footprints.is_known:
        return None
    changing = frozenset(one.index for one in accesses.accesses if one.access.changes)
    seen, changed = Observer(), Observer(changing)

    places = Places(graph, stated, pieces)
    buffers = Layout(whole, module, given).buffers
    symbols = {
        one.name: BASE + buffer[0]
        for one, buffer in zip(whole.parameters, buffers, strict=True)
        if buffer is not None
    }

    def observe(access: ObservedAccess) -> None:
        seen(access)
        changed(access)
        places.check(access, symbols)

    options = EmulatorOptions(checks=frozenset(), observer=observe)
    assert execute(whole, module, given, options=options).is_complete
    found = footprints.of()
    result = Compared(found, seen.sectors.block, seen.sectors.launch, places.checked)
    result.wrong += places.wrong
    executions = Executions(pieces)
    tiles = {one.index for one in accesses.accesses if one.access.purpose is Purpose.MATRIX}
    for (index, *_), times in seen.times.items():
        if index in tiles:  # whose rows are told one by one
            continue
        most = executions.most(graph.block_of(index))
        if most is None or times > most:
            result.wrong.append(f"instruction {index}: {times} times, {most} said")
    for what, observed, said in (
        ("all", seen, found),
        ("changed", changed, footprints.of(lambda one: one.access.changes)),
    ):
        pairs = [
            ("sectors of a block", observed.sectors.block, said.block_sectors),
            ("lines of a block", observed.lines.block, said.block_lines),
            ("sectors", observed.sectors.launch, said.launch_sectors),
            ("lines", observed.lines.launch, said.launch_lines),
        ]
        for name, touched, most in pairs:
            if most is not None and touched > most:
                result.wrong.append(f"{what}: {touched} {name}, {most} said")
    everywhere = set().union(*seen.lines.of_block.values())
    for lines in (1, 4, 64) if found.launch_runs is not None else ():
        # aligned pieces of so many lines, of which a run of l meets at most (l - 2) // lines + 2
        met = len({one[-1] // lines for one in everywhere if isinstance(one[-1], int)})
        most = sum(max(0, run - 2) // lines + min(run, 2) for run in found.launch_runs or ())
        if met > most or any(len(one) != 2 for one in everywhere):
            result.wrong.append(f"{met} pieces of {lines} lines, {most} said")
    if found.is_shared is False and seen.lines.is_shared:
        result.wrong.append("blocks share lines")
    return result


def of_text(
    text: str, block: Dim3, grid: Dim3 | None, parameters: tuple[str, ...], given: EmulatedLaunch
) -> Compared | None:
    """The same for a kernel that is given as text; without a ``grid`` that is not said."""
    shown = None if grid is None else "x".join(map(str, grid))
    sizes = "x".join(map(str, block))
    opened = open_request(
        Request("k.ptx", block=sizes, grid=shown, parameters=parameters, text=text)
    )
    (kernel,) = opened.kernels
    return compared(kernel, opened.module, opened.launch_of(kernel), given)


def of_launch_file(ptx: Path, launch_file: Path) -> Compared | None:
    """The same for the launch that a launch file describes."""
    module = parse_module(read_source(str(ptx)))
    request = Request(str(ptx), launch_file=str(launch_file))
    read = read_launch(str(launch_file), module, Request(str(ptx)))
    opened = open_request(request)
    (kernel,) = opened.kernels
    return compared(read.kernel, module, opened.launch_of(kernel), emulated(read))
