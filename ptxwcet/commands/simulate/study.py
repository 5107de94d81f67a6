"""Simulation of the kernels of a file: the entry point of the library to the simulator.

>>> from ptxwcet.opened.request import Request
>>> from ptxwcet.commands.simulate.study import SimulationOptions, simulate_file
>>> request = Request("samples/vector_add.ptx", block="256", grid="4", parameters=("n=1000",))
>>> answer = simulate_file(request, SimulationOptions("gto"))
>>> [row.run.cycles for row in answer.answered]
[581]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptxwcet.bounds.analysed import PreparedKernel, PreparedPiece
from ptxwcet.bounds.carve_out import require_no_sizes
from ptxwcet.commands.run.study import RefusedLaunch, prepare_launch
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.opened.opening import (
    Answer,
    RefusedKernel,
    digest_of,
    open_request,
    prepared_kernel,
    read_module,
    refuse,
)
from ptxwcet.opened.request import Request
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.policies import Jitter, Policy, find_policy
from ptxwcet.simulator.resolution import resolve_workload
from ptxwcet.simulator.run import SimulatedRun
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The options of a simulation: policy, seed, jitter in percent, recorded events, limit.

    ``policy`` None: each, in turn. ``path_seed`` takes open decisions at random; None: the first
    side of a divergent branch first, the first alternative, the largest loop count. ``executed``:
    simulates the paths that the launch file's inputs execute, instead of extracted paths.
    """

    policy: str | None
    seed: int = 0
    jitter_percent: int = 0
    events: int = 0
    limit: int = 2_000_000_000
    path_seed: int | None = None
    executed: bool = False


@dataclass(frozen=True, slots=True)
class KernelSimulation:
    """The longest of the runs of a kernel's pieces; ``is_resolved``: open decisions were taken."""

    prepared: PreparedKernel
    piece: PreparedPiece
    run: SimulatedRun
    is_resolved: bool

    @property
    def kernel(self) -> Kernel:
        """The kernel whose pieces were run."""
        return self.prepared.kernel

    def beginning(self, events: int) -> KernelSimulation:
        """Returns the run with its first ``events`` issues only."""
        return replace(self, run=replace(self.run, events=self.run.events[:events]))


SimulationAnswer = Answer[KernelSimulation]
"""The runs of the kernels of a file."""


def simulate_file(request: Request, options: SimulationOptions) -> SimulationAnswer:
    """Runs a block of each requested kernel on the simulated machine, under each requested policy.

    Raises PtxwcetError for input that concerns no single kernel. Cost: as the runs.
    """
    policies = list(Policy) if options.policy is None else [find_policy(options.policy)]
    jitter = Jitter(options.jitter_percent, options.seed)
    machine = load_machine(request.machine, request.memory_latency_cycles)
    module = read_module(request)
    kernels: list[KernelSimulation | RefusedKernel] = []
    for prepared in _prepare(request, module, machine, executed=options.executed):
        if isinstance(prepared, RefusedKernel):
            kernels.append(prepared)
            continue
        try:
            for policy in policies:
                runs = [
                    simulate_piece(prepared, piece, policy, jitter, options)
                    for piece in prepared.pieces
                ]
                kernels.append(max(runs, key=lambda simulation: simulation.run.cycles))
        except Exception as error:
            kernels.append(refuse(prepared.kernel, error))
    return Answer(request.path, digest_of(request), machine, tuple(kernels))


def _prepare(
    request: Request, module: Module, machine: Machine, *, executed: bool
) -> Iterator[PreparedKernel | RefusedKernel]:
    """Yields the paths of the warps of each kernel: executed or extracted ones."""
    if executed:
        try:
            prepared = prepare_launch(request, module, machine)
        except RefusedLaunch as refused:
            yield RefusedKernel(refused.kernel, refused.diagnostics)
        else:
            require_no_sizes(prepared.launch, prepared.kernel.span)
            yield prepared
        return
    opened = open_request(request, module)
    yield from opened.each(lambda kernel: prepared_kernel(opened, kernel, machine))


def simulate_piece(
    prepared: PreparedKernel,
    piece: PreparedPiece,
    policy: Policy,
    jitter: Jitter,
    options: SimulationOptions,
) -> KernelSimulation:
    """Runs the blocks of one range of indices. Raises PtxwcetError (PW532, PW533)."""
    # imported here: the compiled code is loaded only for simulations
    from ptxwcet.simulator.engine import Simulator

    workload = resolve_workload(piece.workload, options.path_seed)
    instructions = prepared.kernel.instructions
    simulator = Simulator(
        workload,
        SmConfiguration.of(prepared.machine),
        lambda origin: f"PTX line {instructions[origin].span.shown_line}",
    )
    run = simulator.run(
        policy, seed=options.seed, jitter=jitter, record=options.events, limit=options.limit
    )
    return KernelSimulation(prepared, piece, run, workload is not piece.workload)
