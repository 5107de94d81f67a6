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
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Unpack

from ptxwcet.bounds.methods import SAFE_NAME
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.check.report import CheckReport, run_plan
from ptxwcet.commands.check.study import PLAN, read_plan
from ptxwcet.commands.memory.report import MemoryReport, build_memory_report
from ptxwcet.commands.memory.study import study_accesses
from ptxwcet.commands.run.study import RunAnswer, RunRequest, run_file
from ptxwcet.commands.simulate.study import SimulationOptions, simulate_file
from ptxwcet.library.arguments import (
    WORST,
    BoundArguments,
    Dimensions,
    File,
    Files,
    LaunchArguments,
    Parameter,
    checked,
)
from ptxwcet.library.results import Analysis, Bound, Cfg, Refused, Simulated
from ptxwcet.library.sources import ptx_of
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.opened.front_ends import is_no_ptx
from ptxwcet.opened.machine_code import machine_code
from ptxwcet.opened.nvcc import Compilation, ptx_text
from ptxwcet.opened.opening import RefusedKernel, open_request
from ptxwcet.opened.request import Request, needs_tool
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, render_all
from ptxwcet.support.extras import require_extra

if TYPE_CHECKING:
    import pandas


@checked
def bound(source: object, **given: Unpack[BoundArguments]) -> Bound:
    """How long a block of a kernel takes at most, alone on an SM; and with a grid, the launch.

    ``source`` is a path, the text of PTX, or a compiled kernel of Numba, Triton or CuPy (see
    ``ptx_of``); ``signature`` one that Numba has compiled or is to compile, ``arch`` (``sm_86``)
    what CUDA source is compiled for, or which PTX of a binary is meant. With ``machine_code=True``
    that is bounded: what source and PTX are compiled to for ``arch``, or what a binary holds.
    ``kernel`` is one of the source's, by its name in the PTX or in the source.

    ``link`` are PTX files that the source's kernels are linked with.

    ``params`` go by CUDA name, PTX name or place. ``launch`` and ``facts`` are paths of a launch
    file and of flow facts; ``loop_bounds`` says for labels or lines of the CUDA source how often
    the body of a loop is executed at most an entry. ``cuda_source`` is the file that names the
    parameters, if it does not lie beside the PTX.

    ``machine`` is a name or the path of a machine file; ``memory_latency``, in cycles, takes the
    place of its own, and ``on_unknown="worst"`` charges opcodes without a row its slowest. With a
    ``grid`` the whole launch is bounded, on ``sms`` of the machine's SMs (all) that hold
    ``resident_blocks`` blocks each, or what ``registers`` a thread leave room for (any number that
    is possible) and ``dynamic_shared``, bytes of shared memory that the launch gives a block;
    ``ptxas_info`` is a file of ptxas that says the registers, ``co_runner`` what others move
    through the memory meanwhile: ``"65536,20"``, bytes at once and GB a second.

    ``policy`` is a known warp scheduler; with ``method="scheduled"`` the length of its run is the
    bound. Each is what the option of that name is to ``ptxwcet bound``.

    Raises PtxwcetError for a kernel without a bound, with every reason in ``diagnostics``, and
    TypeError for a keyword that is not known or has a value of another type. Cost: independent of
    trip counts.
    """
    bounds = analyse(source, **given)
    _require_one(bounds.answer.path, [row.kernel.readable for row in bounds.answer.kernels])
    (only,) = bounds.values()
    if isinstance(only, Refused):
        _refuse(only)
    return only


@checked
def analyse(source: object, **given: Unpack[BoundArguments]) -> Analysis:
    """The bound of each kernel of a source, or why there is none; arguments as of ``bound``.

    Raises PtxwcetError for input that concerns no single kernel.
    """
    return Analysis(bound_file(_request(source, **given)))


@checked
def accesses(source: object, **given: Unpack[LaunchArguments]) -> MemoryReport:
    """What each access to memory takes of a warp, and why; nothing is run.

    The report of ``ptxwcet memory``: ``kernels`` has a row for each, ``accesses`` in it one for
    each access, also of a kernel that is not bounded. Arguments as of ``bound``. Raises
    PtxwcetError for input that concerns no single kernel. Cost: that of ``analyse``.

    Examples:
        >>> import ptxwcet
        >>> size = {"width": 1024, "height": 1024}
        >>> report = ptxwcet.accesses("samples/transpose_naive.ptx", block=(32, 8), params=size)
        >>> [(one.purpose, one.most.sectors, one.reason) for one in report.kernels[0].accesses]
        [('load', 4, 'consecutive'), ('store', 32, 'stride 4096 bytes between lanes')]
    """
    request = _request(source, **given)
    return build_memory_report(study_accesses(request), request.source)


@checked
def simulate(
    source: object,
    *,
    policy: str = "gto",
    seed: int = 0,
    **given: Unpack[LaunchArguments],
) -> Simulated:
    """One run of a block on the simulated machine under a warp scheduler: it bounds nothing.

    ``seed`` is that of the policy ``random``; other arguments as of ``bound``. Raises PtxwcetError.
    Cost: that of the run.
    """
    answer = simulate_file(_request(source, **given), SimulationOptions(policy, seed))
    names = (one if isinstance(one, RefusedKernel) else one.prepared for one in answer.kernels)
    _require_one(answer.path, [one.kernel.readable for one in names])
    (simulation,) = answer.kernels
    if isinstance(simulation, RefusedKernel):
        _refuse(Refused(simulation.kernel.readable, simulation.diagnostics))
    return Simulated(simulation)


@checked
def run(source: File, launch: File, *, link: Files = ()) -> RunAnswer:
    """What a kernel computes, executed without a GPU on the data of a launch file.

    ``link`` as of ``bound``.

    ``outputs`` has the arrays afterwards, by name. Raises PtxwcetError. Cost: that of the run.
    """
    return run_file(RunRequest(os.fspath(source), os.fspath(launch), links=_paths(link)))


@checked
def check(plan: File = PLAN, *, workers: int = 1, cache: File | None = None) -> CheckReport:
    """All kernels of a plan against their budgets, as ``ptxwcet check`` does it.

    The same for any number of ``workers``, which are processes, and without ``cache``: a folder
    where answers are kept, and taken from. Raises PtxwcetError for a plan with mistakes and for a
    cache that cannot be used (PW825); a kernel that is refused is a row. Cost: that of a bound for
    each row whose answer is not kept.

    Examples:
        >>> import ptxwcet
        >>> report = ptxwcet.check("samples/ptxwcet.toml", workers=2)
        >>> report.passed, report.checks[0].outcome
        (7, 'passed')
    """
    folder = None if cache is None else Path(cache)
    return run_plan(read_plan(os.fspath(plan)), workers, cache=folder)


@checked
def sweep(
    plan: File = "sweep.toml",
    *,
    output: File | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    resume: bool = False,
    cache: File | None = None,
) -> pandas.DataFrame:
    """The bound of every unit of a plan, as ``ptxwcet sweep`` finds it: a row a unit.

    The columns are those of ``results.parquet`` (docs/sweeps.md). ``output`` is the folder that
    keeps the answers and the tables, which ``resume`` goes on with; without one nothing is kept.
    ``workers`` units are analysed at once (one a core), or as many as the workers of a Dask
    ``scheduler`` can; the rows do not depend on it. ``cache`` is a folder of answers that several
    plans and checks share. Raises PtxwcetError for a plan with mistakes, a cluster that is not
    there or is lost; a unit without a bound is a row. Cost: that of a bound for each row.

    Examples:
        >>> import ptxwcet
        >>> variants = ptxwcet.sweep("samples/sweep.toml")
        >>> of_saxpy = variants[(variants.kernel == "saxpy") & (variants.n == 1_024_000)]
        >>> ranked = of_saxpy.dropna(subset="seconds").sort_values("seconds")
        >>> ranked[["machine", "threads", "cycles"]].head(1).values.tolist()
        [['titan-v', 512, 61331]]
    """
    if workers is not None and scheduler is not None:
        raise TypeError("sweep(): workers= is of this computer: leave it out with scheduler=")
    if resume and output is None:
        raise TypeError("sweep(): resume=True goes on in a folder: say output=, too")
    require_extra("sweep", "ptxwcet.sweep")
    # here: of the extra
    import pandas

    from ptxwcet.sweeps.engine import chosen_cluster
    from ptxwcet.sweeps.sweep_plan import read_sweep_plan
    from ptxwcet.sweeps.sweep_run import run_sweep
    from ptxwcet.sweeps.tables import PARQUET

    read = read_sweep_plan(os.fspath(plan))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "sweep" if output is None else Path(output)
        run_sweep(
            read,
            folder,
            lambda: chosen_cluster(workers if scheduler is None else scheduler),
            resume=resume,
            cache=None if cache is None else Path(cache),
        )
        # whole numbers stay whole where some are missing
        return pandas.read_parquet(folder / PARQUET, dtype_backend="numpy_nullable")


@checked
def cfg(
    source: object,
    *,
    kernel: str | None = None,
    signature: object = None,
    arch: str | None = None,
    link: Files = (),
) -> Cfg:
    """The control-flow graph of a kernel, calls replaced. Raises PtxwcetError. Cost: linear."""
    opened = open_request(
        _request(source, kernel=kernel, signature=signature, arch=arch, link=link)
    )
    _require_one(opened.request.path, [one.name for one in opened.kernels])
    return Cfg.of(opened.whole(opened.kernels[0]))


def _request(source: object, **given: Unpack[BoundArguments]) -> Request:
    """The request of ``source`` and what is said of its launch, as the command line makes it.

    Raises PtxwcetError; TypeError for an ``arch`` or a ``signature`` that says nothing here.
    """
    signature, arch, links = (
        given.get("signature"),
        given.get("arch"),
        _paths(given.get("link", ())),
    )
    if signature is not None and not hasattr(source, "inspect_asm"):
        raise TypeError("signature= is of a dispatcher of Numba: this source has none")
    carried = ptx_of(source, signature)
    kernel = given.get("kernel") or carried.kernel
    kernels = () if kernel is None else (kernel,)
    text = carried.text
    compilation = Compilation(arch, is_linked=bool(links))
    is_code = bool(given.get("machine_code")) and (text is not None or not is_no_ptx(carried.path))
    if is_code:
        text = machine_code(carried.path, compilation, kernels, text)
    elif text is None and needs_tool(carried.path):
        text = ptx_text(carried.path, compilation, kernels)
    elif arch is not None:
        raise TypeError("arch= is for CUDA source and binaries: PTX is compiled already")
    return Request(
        carried.path,
        kernels,
        _dimensions(given.get("block")),
        _dimensions(given.get("grid")),
        tuple(f"{key}={_shown(one)}" for key, one in (given.get("params") or {}).items()),
        source=_path(given.get("cuda_source")),
        loop_bounds=tuple(f"{at}={most}" for at, most in (given.get("loop_bounds") or {}).items()),
        machine=os.fspath(given.get("machine", DEFAULT_MACHINE)),
        memory_latency_cycles=given.get("memory_latency"),
        unknown_at_worst=given.get("on_unknown") == WORST,
        policy=given.get("policy"),
        method=given.get("method", SAFE_NAME),
        launch_file=_path(given.get("launch")),
        facts_file=_path(given.get("facts")),
        text=text,
        gpu=GridWishes(
            *(given.get("sms"), given.get("resident_blocks"), given.get("registers")),
            registers_source="registers=",
            co_runner=given.get("co_runner"),
            dynamic_shared=given.get("dynamic_shared"),
        ),
        ptxas_info=_path(given.get("ptxas_info")),
        links=links,
        is_code=is_code,
    )


def _paths(files: Files) -> tuple[str, ...]:
    if isinstance(files, str | os.PathLike):
        return (os.fspath(files),)
    return tuple(os.fspath(file) for file in files)


def _path(file: File | None) -> str | None:
    return None if file is None else os.fspath(file)


def _dimensions(size: Dimensions | None) -> str | None:
    if size is None or isinstance(size, str):
        return size
    return "x".join(map(str, size)) if isinstance(size, Sequence) else str(size)


def _shown(value: Parameter) -> str:
    """A value as an option says it. Raises PtxwcetError (PW213) for a range that is none."""
    if not isinstance(value, range):
        return str(value)
    if value.step != 1 or not value:
        message = f"{value} is no range of integers one after the other"
        raise PtxwcetError(Diagnostic("PW213", message, help="give range(least, most + 1)"))
    return f"{value[0]}..{value[-1]}"


def _require_one(path: str, kernels: Sequence[str]) -> None:
    """Raises PtxwcetError (PW208) if one kernel is meant and there are several."""
    if len(kernels) != 1:
        message = f"{path} has {len(kernels)} kernels: {', '.join(kernels)}"
        raise PtxwcetError(Diagnostic("PW208", message, help="say which one: kernel=NAME"))


def _refuse(refused: Refused) -> NoReturn:
    error = PtxwcetError(refused.diagnostics)
    error.add_note(render_all(refused.diagnostics))
    raise error
