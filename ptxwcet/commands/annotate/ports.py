"""``ptxwcet annotate ports``: prints the load of each unit and the critical chain per iteration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import click

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.carve_out import require_no_sizes
from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import finish, show
from ptxwcet.commands.bound.loop_text import loop_place
from ptxwcet.commands.bound.study import FileAnswer, bound_file
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import Machine, OpTiming
from ptxwcet.opened.opening import RefusedKernel, refuse
from ptxwcet.opened.request import Request
from ptxwcet.report.columns import shown, text_table
from ptxwcet.report.head import (
    KernelHead,
    MachineHead,
    Refused,
    kernel_head,
    kernel_report,
    kernels_text,
    refusals,
)
from ptxwcet.report.source_lines import place
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.printable import plural
from ptxwcet.support.records import dataclass
from ptxwcet.timing.cost import row_of
from ptxwcet.timing.pressure import Circle, Pressure, pressure_of
from ptxwcet.warp.program import BlockChoice, BlockRepeat, Choice, Node, Repeat
from ptxwcet.warp.structure import bodies, entered, issued

ISSUE, PATH, MEMORY = "issue", "memory path", "memory"


@dataclass(frozen=True, slots=True)
class PortRow:
    """An instruction: cycles an iteration at each port, ``chain`` whether the chain is through it.

    ``ports`` has those that it takes at all.
    """

    place: str = field(metadata=shown("line"))
    instruction: str = field(metadata=shown("", notebook="code", at=1))
    ports: Mapping[str, float] = field(metadata=shown("ports", form="g", is_right=True))
    chain: bool = field(
        metadata=shown("chain", lambda row: "*" if row.chain else "", is_right=True)
    )


@dataclass(frozen=True, slots=True)
class LoopPortsRow:
    """An iteration of a loop by a warp, of ``iterations`` alike one after the other at most.

    ``ports`` are the sums of the rows, and ``servers`` how many of each port such a sum is shared
    by. ``chain_cycles`` an iteration, on a circle that takes ``chain_iterations``; ``alone_cycles``
    an iteration of a warp alone, without waiting at memory path and memory. Both are None where
    ``exact`` is False: iterations differ, so that the ports are the most of any, or are too long.
    ``sources``: where the machine file has the figures of opcodes on the chain from.
    """

    block: str
    place: str
    iterations: int
    exact: bool
    ports: Mapping[str, float]
    servers: Mapping[str, int]
    chain_cycles: float | None
    chain_iterations: int | None
    alone_cycles: float | None
    sources: Mapping[str, str]
    instructions: tuple[PortRow, ...]

    @property
    def port_names(self) -> Mapping[str, str]:
        """The label of each port, with the number of ports that share its sum if several do."""
        return {
            port: f"{port} /{number}" if (number := self.servers[port]) > 1 else port
            for port in self.ports
        }


@dataclass(frozen=True, slots=True)
class PortsKernel(KernelHead):
    """The loops of a kernel, outer before inner; those that are executed once at most are none."""

    loops: tuple[LoopPortsRow, ...]
    status: Literal["analysed"] = "analysed"


@dataclass(frozen=True, slots=True)
class PortsReport(MachineHead):
    """The kernels of a file: figures of a warp and an iteration, and no bounds."""

    kernels: tuple[PortsKernel | Refused, ...]


@click.command(
    "ports",
    cls=Command,
    example="ptxwcet annotate ports kernel.ptx --block 256 --grid 16 --param n=4096",
)
@options.analysis_options
@options.report_options
def annotate_ports(form: str, **given: Any) -> int:
    """Print what an iteration of each loop takes of the units, and its longest chain of results.

    Of one warp: cycles at the issue port, at each unit and behind it, by instruction, and the
    longest circle of results through the iterations. None of them is a bound of the launch.
    """
    answer, report = ports_of_file(options.request_from(**given))
    show(form, report, render_ports_text)
    return finish(refusals(answer, report.kernels), is_partial=bool(answer.answered))


def ports_of_file(request: Request) -> tuple[FileAnswer, PortsReport]:
    """Returns the bounds of a file's kernels and their port loads. Raises PtxwcetError.

    Cost: as the bounds, and linear in the loops' bodies.
    """
    answer = bound_file(request)
    answer = replace(answer, kernels=tuple(map(_without_sizes, answer.kernels)))
    return answer, kernel_report(PortsReport, answer, _kernel)


def _without_sizes(kernel: KernelAnalysis | RefusedKernel) -> KernelAnalysis | RefusedKernel:
    """Returns the row, refused if the launch states array sizes, which phases and ports ignore."""
    if isinstance(kernel, RefusedKernel):
        return kernel
    try:
        require_no_sizes(kernel.launch, kernel.kernel.span)
    except PtxwcetError as error:
        return refuse(kernel.kernel, error)
    return kernel


def _kernel(analysis: KernelAnalysis) -> PortsKernel:
    """Returns the loops of the worst kind of block, each as it is executed most often."""
    workload = analysis.worst.analysis.workload
    executed: dict[int, tuple[int, tuple[Node, ...]]] = {}
    for warps in workload.classes:
        for node in entered(warps.program.body):
            if isinstance(node, Repeat | BlockRepeat) and node.count > 1:
                loop, _, times = _loop_of(analysis, node.body)
                count = node.count * times
                if times and count > executed.get(loop, (0,))[0]:
                    executed[loop] = count, node.body
    row = partial(_loop_row, analysis)
    return PortsKernel(
        *kernel_head(analysis.kernel, analysis.launch),
        tuple(row(loop, *executed[loop]) for loop in sorted(executed)),
    )


def _loop_of(analysis: KernelAnalysis, body: tuple[Node, ...]) -> tuple[int, int, int]:
    """Returns the loop whose body this is and its least and largest count; 0 if it is no loop's."""
    own = (issued(node) for node in entered(body))
    origins = {one.origin for one in own if one is not None}
    blocks = {
        block.id
        for block in analysis.cfg.blocks
        if not origins.isdisjoint(range(block.start, block.end))
    }
    around = [loop for loop in analysis.forest.loops if blocks and blocks <= loop.body]
    if not around:
        return 0, 0, 0
    loop = max(around, key=lambda one: one.depth)
    header = analysis.cfg.blocks[loop.header]
    timed = (index for index in range(header.start, header.end) if index in origins)
    return loop.id, *_executions(body, next(timed, -2))


def _executions(body: tuple[Node, ...], index: int) -> tuple[int, int]:
    """Returns the least and largest number of executions of an instruction by a body."""
    least = most = 0
    for node in body:
        own = issued(node)
        inside = [_executions(inner, index) for inner in bodies(node)]
        lows, highs = [low for low, _ in inside], [high for _, high in inside]
        match node:
            case Choice() | BlockChoice():
                least, most = least + min(lows, default=0), most + max(highs, default=0)
            case Repeat() | BlockRepeat():
                least, most = least + node.least * lows[0], most + node.count * highs[0]
            case _:
                here = int(own is not None and own.origin == index)
                least, most = least + here + sum(lows), most + here + sum(highs)
    return least, most


def _loop_row(
    analysis: KernelAnalysis, loop: int, count: int, body: tuple[Node, ...]
) -> LoopPortsRow:
    machine = analysis.machine
    times = max(1, _loop_of(analysis, body)[1])
    pressure = pressure_of(body, analysis.worst.analysis.workload.scoreboard)
    ports = _ports(pressure, machine, times)
    chain, alone = pressure.chain, pressure.alone
    found = analysis.forest.loops[loop]
    return LoopPortsRow(
        analysis.cfg.name(found.header),
        loop_place(analysis.flow, found),
        count,
        chain is not None and alone is not None,
        {port: _rounded(total) for port, (_, total) in ports.items()},
        {port: _servers(machine, port) for port in ports},
        _each(chain, times),
        None if chain is None else chain.iterations * times,
        _each(alone, times),
        _sources(analysis, () if chain is None else chain.origins),
        tuple(
            PortRow(
                place(analysis.kernel, index),
                " ".join(analysis.kernel.instructions[index].span.text.split()),
                {port: _rounded(rows[index]) for port, (rows, _) in ports.items() if index in rows},
                chain is not None and index in chain.origins,
            )
            for index in sorted(pressure.issue.by_instruction)
        ),
    )


def _sources(analysis: KernelAnalysis, chain: Iterable[int]) -> Mapping[str, str]:
    """Returns where the figures of the instructions on a chain are from, by their opcodes."""
    kernel, machine, sources = analysis.kernel, analysis.machine, dict[str, str]()
    for index in chain:
        step, code = kernel.instructions[index], kernel.code
        kind = None if code is None else code.encoded[index].kind
        timing = None if step.op_class is None else row_of(step, step.op_class, machine, kind)
        name = step.mnemonic.partition(".")[0]
        if isinstance(timing, OpTiming):
            sources[name] = timing.source
        if step.op_class is OpClass.BRANCH and (bubble := machine.taken_branch_bubble_cycles):
            sources[name] += f"; taken, {bubble} more, as the file says without a source"
    return sources


def _ports(
    pressure: Pressure, machine: Machine, times: int
) -> dict[str, tuple[dict[int, Fraction], Fraction]]:
    """Returns the cycles per iteration of each used port: of each instruction, and their total."""
    memory = Fraction(machine.cycles_per_1024_sectors, 1024)
    named = {ISSUE: pressure.issue, **pressure.units, PATH: pressure.path, MEMORY: pressure.sectors}
    ports = {}
    for port, use in named.items():
        each = (memory if port == MEMORY else 1) * Fraction(1, times)
        rows = {index: each * cycles for index, cycles in use.by_instruction.items()}
        if each * use.total:
            ports[port] = rows, each * use.total
    return ports


def _servers(machine: Machine, port: str) -> int:
    """Returns the number of servers of a unit that a warp can use: the servers of its sub-core."""
    count = next((unit.count for unit in machine.units if unit.name == port), 1)
    cores = machine.schedulers_per_sm
    if count % cores == 0:
        return count // cores
    return 1 if cores % count == 0 else count


def _each(circle: Circle | None, times: int) -> float | None:
    return None if circle is None else _rounded(circle.each / times)


def _rounded(cycles: Fraction | int) -> float:
    return round(float(cycles), 2)


# --- text -----------------------------------------------------------------------------------------


def render_ports_text(report: PortsReport) -> str:
    """Returns the report for people."""
    return kernels_text(report, _kernel_lines, names_refused=True)


def _kernel_lines(kernel: PortsKernel) -> Iterator[str]:
    yield f"kernel     {kernel.readable}"
    yield "cycles of one warp and iteration, and no bound; chain: * is on the longest"
    yield "circle of results that wait for one another"
    for loop in kernel.loops:
        yield ""
        yield from _loop_lines(loop)
    if not kernel.loops:
        yield "no loop has iterations that are alike"


def _loop_lines(loop: LoopPortsRow) -> Iterator[str]:
    yield f"loop {loop.block}  {loop.place}  {plural(loop.iterations, 'iteration')} alike"
    sums = (f"{cycles:g}" for cycles in loop.ports.values())
    chain = "" if loop.chain_cycles is None else f"{loop.chain_cycles:g}"
    whole = ("all" if loop.exact else "at most", *sums, chain, "")
    yield from text_table(loop.instructions, {"ports": loop.port_names}, more=[whole])
    if loop.alone_cycles is None:
        yield "iterations differ or are too long: no chain is given"
        return
    port, busiest = max(
        ((port, cycles / loop.servers[port]) for port, cycles in loop.ports.items()),
        key=lambda port: port[1],
    )
    over = f" over {loop.chain_iterations} iterations" if (loop.chain_iterations or 1) > 1 else ""
    yield f"busiest {port} {busiest:g}, chain {loop.chain_cycles:g}{over}; a warp alone takes " + (
        f"{loop.alone_cycles:g}"
    )
    yield from (f"  {name}: {source}" for name, source in loop.sources.items())
