"""The functions of ``import ptxwcet``: bounds, runs and graphs of kernels, in three lines.

>>> import ptxwcet
>>> ptxwcet.bound("samples/vector_add.ptx", block=256, params={"n": 1000})
<Bound vector_add: 662 cycles, safe-bound, on orin-ecrts2025-memory>
>>> ptxwcet.bound("samples/vector_add.ptx", block=256, grid=64, params={"n": 16384}, registers=16)
<Bound vector_add: 661 cycles a block, 18,719 the launch, safe-bound, on orin-ecrts2025-memory>
>>> ptxwcet.bound("samples/vector_add.ptx", block=256, params={"n": range(1, 5000)}).cycles
662
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.cfg.study import describe_kernel, kernels_to_draw
from ptxwcet.commands.run.study import RunRequest, run_file
from ptxwcet.commands.simulate.study import SimulationOptions, simulate_file
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.library.arguments import (
    checked,
    request_of,
    require_one,
)
from ptxwcet.library.results import Analysis, Bound, Cfg, Executed, Refused, Shown, Simulated
from ptxwcet.library.shown import formula_tables, shown
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.opening import RefusedKernel, open_request, read_module
from ptxwcet.opened.request import MOST_INSTRUCTIONS
from ptxwcet.simulator.policies import Policy
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.options import (
    BoundArguments,
    File,
    Files,
    GridArguments,
    MachineArguments,
    PlaceArguments,
    paths_of,
)

if TYPE_CHECKING:
    from ptxwcet.commands.bound.symbolic import SymbolicReport


@checked
def bound(source: object, **given: Unpack[BoundArguments]) -> Bound:
    """Bounds the time of a block of a kernel, alone on an SM; with a grid, also of the launch.

    ``source`` is a path, the text of PTX, or a compiled kernel of Numba, Triton or CuPy (see
    ``ptx_of``); ``signature`` is a signature that Numba has compiled or is to compile, ``arch``
    (``sm_86``) the target of CUDA source, or selects the PTX of a binary, ``nvcc_options`` are
    further options of the compiler. With ``machine_code=True`` machine code is bounded: compiled
    from source or PTX for ``arch``, or in a binary. ``kernel`` is one of the source's, or several,
    by its name in the PTX or in the source.

    ``link`` are PTX files that the source's kernels are linked with.

    ``params`` go by CUDA name, PTX name or place. ``launch`` and ``facts`` are paths of a launch
    file and of flow facts; ``loop_bounds`` has the largest number of body executions per entry of
    loops, by label or line of the CUDA source. ``cuda_source`` is the file that names the
    parameters, unless it is in the folder of the PTX.

    ``machine`` is a name or the path of a machine file; ``memory_latency``, in cycles, replaces its
    own, and ``on_unknown="worst"`` charges opcodes without a row its slowest. With a ``grid`` the
    whole launch is bounded, on ``sms`` of the machine's SMs (all) that hold ``resident_blocks``
    blocks each, or as many as ``registers`` per thread (any possible number; ``"ptxas"`` runs it)
    and ``dynamic_shared``, bytes of shared memory that the launch gives a block, allow;
    ``ptxas_info`` is a file of ptxas with the registers, ``co_runner`` the memory traffic of others
    meanwhile: ``"65536,20"``, bytes at once and GB a second.

    ``policy`` is a known warp scheduler; with ``method="scheduled"`` the length of its run is the
    bound. ``executed`` runs the launch file's inputs and bounds the paths that they take: an
    estimate. Each argument is the option of the same name of ``ptxwcet bound``.

    Raises PtxwcetError for a kernel without a bound, with every reason in ``diagnostics``, and
    TypeError for a keyword that is unknown or has a value of another type. Cost: independent of
    trip counts.
    """
    bounds = analyse(source, **given)
    require_one(bounds.answer.path, [row.kernel.readable for row in bounds.answer.kernels])
    (only,) = bounds.values()
    if isinstance(only, Refused):
        raise PtxwcetError(only.diagnostics)
    return only


@checked
def analyse(source: object, **given: Unpack[BoundArguments]) -> Analysis:
    """Bounds each kernel of a source, or refuses it with the reason; arguments as of ``bound``.

    Raises PtxwcetError for input that concerns no single kernel.
    """
    request = request_of(source, **given)
    if not given.get("executed"):
        return Analysis(bound_file(request))
    # imported here: only executed launches need the emulator
    from ptxwcet.commands.bound.executed import bound_executed

    return Analysis(bound_executed(request))


@checked
def formula(source: object, symbolic: str, **given: Unpack[GridArguments]) -> Shown[SymbolicReport]:
    """Returns the bounds as formulas of a parameter that stays open: ``"n=1..4096"``.

    What ``ptxwcet bound --symbolic`` shows; other arguments as of ``bound``. Raises PtxwcetError.
    Cost: independent of the width of the range.

    Examples:
        >>> import ptxwcet
        >>> found = ptxwcet.formula("samples/sgemm_naive.ptx", "K=1..4096", block=(32, 32))
        >>> found.kernels[0].largest_cycles
        536198
    """
    request = request_of(source, **given)
    # imported here: only formulas need these
    from ptxwcet.commands.bound.formula import bound_symbolic
    from ptxwcet.commands.bound.symbolic import build_symbolic_report

    answer = bound_symbolic(request, symbolic)
    report = build_symbolic_report(answer)
    return shown(
        report,
        f"formulas of {symbolic} of {request.path}",
        _symbolic_text,
        formula_tables,
        answer,
    )


def _symbolic_text(report: SymbolicReport) -> str:
    from ptxwcet.commands.bound.symbolic_text import render_symbolic_text

    return render_symbolic_text(report).text


@checked
def simulate(
    source: object,
    *,
    policy: str = "gto",
    seed: int = 0,
    jitter: int = 0,
    executed: bool = False,
    **given: Unpack[MachineArguments],
) -> Simulated:
    """Runs a block on the simulated machine under a warp scheduler: the result is not a bound.

    ``seed`` is for the policy ``random`` and for ``jitter``, by which timings are shortened, in per
    cent; ``executed`` runs the paths that the launch file's inputs execute. Other arguments as of
    ``bound``. Raises PtxwcetError. Cost: as the run.
    """
    if seed and policy != Policy.RANDOM.value and not jitter:
        raise TypeError("simulate(): seed= is of policy='random' and of jitter=: leave it out")
    options = SimulationOptions(policy, seed, jitter, executed=executed)
    answer = simulate_file(request_of(source, **given), options)
    names = (one if isinstance(one, RefusedKernel) else one.prepared for one in answer.kernels)
    require_one(answer.path, [name.kernel.readable for name in names])
    (simulation,) = answer.kernels
    if isinstance(simulation, RefusedKernel):
        raise PtxwcetError(simulation.diagnostics)
    return Simulated(simulation, answer)


@checked
def run(
    source: File,
    launch: File,
    *,
    link: Files = (),
    cuda_source: File | None = None,
    max_instructions: int = MOST_INSTRUCTIONS,
) -> Executed:
    """Executes a kernel without a GPU on the data of a launch file.

    ``link`` and ``cuda_source`` as of ``bound``; a run of more than ``max_instructions``
    warp-instructions is given up.

    ``outputs`` has the arrays afterwards, by name. Raises PtxwcetError. Cost: as the run.
    """
    names = None if cuda_source is None else os.fspath(cuda_source)
    files = os.fspath(source), os.fspath(launch), names
    asked = RunRequest(*files, max_instructions, links=paths_of(link))
    return Executed(run_file(asked))


@checked
def cfg(source: object, **given: Unpack[PlaceArguments]) -> Cfg:
    """Returns the control-flow graph of a kernel, calls inlined, with its blocks' costs.

    ``kernel`` may be a device function, ``source`` machine code (a ``.cubin``). With a launch
    (arguments as of ``bound``) pictures show the classes of branches and the bounds of loops.
    Raises PtxwcetError. Cost: linear; with a launch a path extraction.
    """
    request = request_of(source, **given)
    chosen = load_machine(request.machine, request.memory_latency_cycles)
    if not any(given.get(one) for one in _OF_THE_LAUNCH):
        module = read_module(request, for_graph=True)
        kernels = kernels_to_draw(module, request.kernels)
        require_one(request.path, [kernel.readable for kernel in kernels])
        return Cfg(ControlFlow.of(inline_calls(kernels[0], module)), chosen)
    opened = open_request(request)
    require_one(request.path, [kernel.readable for kernel in opened.kernels])
    (kernel,) = opened.kernels
    described = describe_kernel(kernel, opened, opened.launch_of_paths(kernel))
    return Cfg(described.flow, chosen, described.notes)


_OF_THE_LAUNCH = ("block", "grid", "params", "launch", "facts", "loop_bounds")
