"""Bounds of the whole launch of a kernel, from the bounds of its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ptxwcet.bounds.analysed import AnalysedPiece, KernelAnalysis
from ptxwcet.bounds.carve_out import require_grid
from ptxwcet.bounds.launch_bound import LaunchBound, bound_launch
from ptxwcet.bounds.occupancy import LaunchedBlock, stated_registers, static_shared_bytes
from ptxwcet.bounds.roofline import bytes_of_arrays, launch_roofline
from ptxwcet.bounds.wishes import GridWishes, Spills
from ptxwcet.claims import Refusal
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel, Module, Space
from ptxwcet.machine.architectures import architecture_of
from ptxwcet.machine.loader import load_machine
from ptxwcet.memory.instructions import accesses_of
from ptxwcet.opened.launching import SaidByFile
from ptxwcet.opened.opening import sources_of
from ptxwcet.opened.request import Request
from ptxwcet.timing.launch_costs import graph_of, kernel_accesses

if TYPE_CHECKING:
    from ptxwcet.bounds.register_use import RegisterUse
    from ptxwcet.memory.footprint import Footprints


class Wishes:
    """The GPU options of a request, kernel by kernel; output of ptxas is read on demand."""

    def __init__(self, request: Request) -> None:
        self._request = request

    @cached_property
    def _use(self) -> RegisterUse | None:
        request = self._request
        if request.ptxas_info is None and not request.asks_ptxas:
            return None
        # imported here: few launches query ptxas
        from ptxwcet.bounds.register_use import ask_ptxas, read_register_use

        if request.ptxas_info is not None:
            return read_register_use(request.ptxas_info)
        capability = load_machine(request.machine).compute_capability
        own = "" if capability is None else architecture_of(capability)
        return ask_ptxas(sources_of(request)[0].text, own)

    def of(self, kernel: Kernel) -> GridWishes:
        """Returns the GPU options of a kernel. Raises PtxwcetError (PW317, PW318)."""
        if self._use is None:
            return self._request.gpu
        registers, source = self._use.of(kernel.name)
        spills = self._use.spills_of(kernel.name)
        gpu = self._request.gpu
        return replace(gpu, registers=registers, registers_source=source, spills=spills)


def with_launch_bound(
    analysis: KernelAnalysis, module: Module, said_by_file: SaidByFile, wishes: Wishes
) -> KernelAnalysis:
    """Returns the analysis with the bound of its launch and the roofline, if there is a grid.

    The bound is the least over the choices of facts that were tried: the best for a block need not
    be the best for a launch, because without some facts the number of blocks on a path is unknown.
    Raises PtxwcetError: PW316 to PW319, PW323, PW326, PW426. Cost: a profile for each class and
    section, for each choice.
    """
    grid = analysis.launch.grid
    require_grid(analysis.launch, analysis.kernel.span)
    if grid is None:
        return analysis
    options = wishes.of(analysis.kernel)
    block = launched_block(analysis.kernel, analysis.launch, module, said_by_file, options)
    best: LaunchBound | Refusal | None = None
    for pieces in (analysis.pieces, *analysis.others):
        counted = [(piece.analysis, piece.count) for piece in pieces]
        touched = partial(_footprints, analysis, pieces)
        found = bound_launch(counted, grid, block, analysis.machine, options, touched)
        if best is None or _is_less(found, best):
            best, analysis = found, replace(analysis, launch_bound=found, of_launch=pieces)
    if not isinstance(best, LaunchBound):
        return analysis
    counted = [(piece.analysis, piece.count) for piece in analysis.of_launch]
    known = said_by_file.array_bytes
    arrays = bytes_of_arrays(analysis.kernel, module, analysis.launch, known)
    return replace(analysis, roofline=launch_roofline(counted, best, analysis.machine, arrays))


def _footprints(analysis: KernelAnalysis, pieces: Sequence[AnalysedPiece]) -> Footprints:
    """Returns the memory that the launch touches."""
    # imported here: few machine files have claims on caches
    from ptxwcet.memory.footprint import Footprints

    kernel, launch = analysis.kernel, analysis.launch
    paths = [piece.paths for piece in pieces]
    return Footprints(graph_of(kernel, launch), launch, kernel_accesses(kernel, launch), paths)


def _is_less(one: LaunchBound | Refusal, other: LaunchBound | Refusal) -> bool:
    if isinstance(one, Refusal):
        return False
    return isinstance(other, Refusal) or one.claim.cycles < other.claim.cycles


def launched_block(
    kernel: Kernel, launch: Launch, module: Module, said_by_file: SaidByFile, wishes: GridWishes
) -> LaunchedBlock:
    """Returns the resources that a block of a kernel requires. Raises PtxwcetError (PW426)."""
    registers, source = stated_registers(
        kernel, wishes, said_by_file.registers, said_by_file.registers_place
    )
    spills = wishes.spills if kernel.code is None else local_memory(kernel)
    return LaunchedBlock(
        kernel,
        launch.threads,
        static_shared_bytes(kernel, module),
        _names_dynamic(kernel, module),
        wishes.dynamic_shared
        if said_by_file.dynamic_shared_bytes is None
        else said_by_file.dynamic_shared_bytes,
        registers,
        source,
        tuple((launch.name_of(name), size) for name, size in launch.sizes.items()),
        spills,
    )


def local_memory(kernel: Kernel) -> Spills:
    """Returns what machine code stores and loads in local memory, which contains spills.

    The unit is bytes, and each instruction counts once. Cost: linear in the kernel.
    """
    own = [
        access
        for instruction in kernel.instructions
        for access in accesses_of(instruction)
        if access.space is Space.LOCAL
    ]
    stored = sum(access.access_bytes for access in own if access.changes)
    return Spills(stored, sum(access.access_bytes for access in own) - stored)


def _names_dynamic(kernel: Kernel, module: Module) -> bool:
    """Returns whether the kernel names shared memory whose size the launch sets."""
    named = {name for instruction in kernel.instructions for name in instruction.names}
    variables = (*module.variables, *kernel.variables)
    return any(
        one.space == "shared" and not one.size_bytes and one.name in named for one in variables
    )
