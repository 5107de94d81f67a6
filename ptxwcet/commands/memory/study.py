"""The accesses of the kernels of a PTX file: transactions of each, and their share of the bound.

>>> from ptxwcet.commands.memory.study import study_accesses
>>> from ptxwcet.opened.request import Request
>>> request = Request("samples/transpose_naive.ptx", block="32x8", parameters=("width=1024",))
>>> (found,) = study_accesses(request).answered
>>> [one.most.lines for one in found.accesses.accesses if one.most.lines]
[1, 32]
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field

from ptxwcet.bounds.explanation import explain_safe
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.architectures import require_architecture
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.memory.analysis import KernelAccesses
from ptxwcet.memory.footprint import Footprint, Footprints
from ptxwcet.opened.opening import Answer, Opened, open_request
from ptxwcet.opened.request import Request
from ptxwcet.pipeline import analyse_kernel, build_flow
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.launch_costs import graph_of, kernel_accesses


@dataclass(frozen=True, slots=True)
class StudiedAccesses:
    """The accesses of a kernel in a launch.

    ``paid`` are the cycles of the bound of a block that each instruction pays, by index, and
    ``bound_cycles`` is this bound; None without a bound. ``footprints`` has an entry for each
    array, and is empty if the warps' paths are unknown.
    """

    kernel: Kernel
    launch: Launch
    accesses: KernelAccesses
    paid: Mapping[int, int]
    bound_cycles: int | None
    footprints: Mapping[str, Footprint] = field(default_factory=dict)


def study_accesses(request: Request) -> Answer[StudiedAccesses]:
    """Returns the accesses of each requested kernel, also of kernels without a bound.

    Raises PtxwcetError for input that concerns no single kernel. Cost: as its bound.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    opened = open_request(request)
    rows = opened.each(lambda kernel: _studied(opened, kernel, machine))
    return Answer(request.path, opened.sha256, machine, rows)


def _studied(opened: Opened, kernel: Kernel, machine: Machine) -> StudiedAccesses:
    whole, launch = opened.whole(kernel), opened.launch_not_bounded(kernel)
    require_architecture(whole, machine)
    build_flow(whole, launch)  # refuses illegal launches
    accesses = kernel_accesses(whole, launch)
    paid: Mapping[int, int] = {}
    footprints: Mapping[str, Footprint] = {}
    bound = None
    with suppress(PtxwcetError):
        facts, at_worst = opened.facts_of(kernel), opened.request.unknown_at_worst
        analysis = analyse_kernel(whole, launch, machine, facts, unknown_at_worst=at_worst)
        explained = explain_safe(analysis.worst.analysis)
        paid = {index: one.total for index, one in explained.paid.items()}
        bound = explained.cycles
        paths = [piece.paths for piece in analysis.pieces]
        footprints = Footprints(graph_of(whole, launch), launch, accesses, paths).arrays()
    return StudiedAccesses(whole, launch, accesses, paid, bound, footprints)
