"""How long the whole launch of a kernel takes, whose blocks are bounded one by one."""

from __future__ import annotations

from dataclasses import replace

from ptxwcet.analysed import KernelAnalysis
from ptxwcet.compose.launch_bound import bound_launch
from ptxwcet.compose.residency import LaunchedBlock, stated_registers, static_shared_bytes
from ptxwcet.compose.wishes import GridWishes
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.studies.opening import Launched


def with_launch_bound(
    row: KernelAnalysis, module: Module, launched: Launched, wishes: GridWishes
) -> KernelAnalysis:
    """The analysis with the bound of its launch, if there is a grid.

    Raises PtxwcetError: PW316, PW319, PW426. Cost: a profile a class and section.
    """
    grid = row.launch.grid
    if grid is None:
        return row
    block = launched_block(row.kernel, row.launch.threads, module, launched, wishes)
    pieces = [(piece.analysis, piece.count) for piece in row.pieces]
    return replace(row, launched=bound_launch(pieces, grid, block, row.machine, wishes))


def launched_block(
    kernel: Kernel, threads: int, module: Module, launched: Launched, wishes: GridWishes
) -> LaunchedBlock:
    """What a block of a kernel asks of an SM. Raises PtxwcetError (PW426)."""
    registers, source = stated_registers(wishes, launched.registers, launched.registers_place)
    return LaunchedBlock(
        kernel,
        threads,
        static_shared_bytes(kernel, module),
        _names_dynamic(kernel, module),
        launched.dynamic_shared_bytes,
        registers,
        source,
    )


def _names_dynamic(kernel: Kernel, module: Module) -> bool:
    """Whether the kernel names shared memory whose size the launch sets."""
    named = {name for one in kernel.instructions for name in one.names}
    variables = (*module.variables, *kernel.variables)
    return any(
        one.space == "shared" and not one.size_bytes and one.name in named for one in variables
    )
