"""The library's front door: bound the kernels of a PTX file.

>>> from ptxwcet.api import Request, bound_file
>>> answer = bound_file(Request("samples/vector_add.ptx", block="256", parameters=("n=1000",)))
>>> [row.worst.bound.cycles for row in answer.bounded]
[662]
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ptxwcet.flow.facts.arrays import resolve_arrays
from ptxwcet.flow.facts.asm_comments import find_marks
from ptxwcet.flow.facts.cuda_loops import CudaSource
from ptxwcet.flow.facts.cuda_names import parameter_names
from ptxwcet.flow.facts.files import read_flow_facts
from ptxwcet.flow.facts.parameters import parse_parameters, resolve_parameters
from ptxwcet.flow.facts.stated import (
    FactSource,
    ParameterFact,
    StatedFacts,
    parse_loop_bounds,
)
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Dim3, Launch, parse_dim3
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.pipeline import SCHEDULED, KernelAnalysis, analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.simulator.policies import Policy, find_policy
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, internal_error
from ptxwcet.support.input_files import MOST_TEXT_BYTES, read_bytes, read_text

if TYPE_CHECKING:
    from ptxwcet.emulator.launch_model import LaunchFile


@dataclass(frozen=True, slots=True)
class Request:
    """What to bound, with the launch facts as the user writes them.

    ``kernels`` empty: all of the file. ``block`` None: the kernel's ``.reqntid``. ``source`` is the
    CUDA source that names the parameters; None: the ``.cu`` beside the ``.ptx``, if there is one.
    ``policy`` names a known warp scheduler, for the method ``scheduled``; ``method`` is the one
    that is reported as the bound, ``safe`` or ``scheduled``. ``launch_file`` is a launch file that
    says kernel, block, grid and parameters, constants, ``facts_file`` one of flow facts.
    """

    path: str
    kernels: tuple[str, ...] = ()
    block: str | None = None
    grid: str | None = None
    parameters: tuple[str, ...] = ()
    source: str | None = None
    loop_bounds: tuple[str, ...] = ()
    machine: str = DEFAULT_MACHINE
    memory_latency_cycles: int | None = None
    unknown_at_worst: bool = False
    policy: str | None = None
    method: str = "safe"
    launch_file: str | None = None
    facts_file: str | None = None
    launched: tuple[ParameterFact, ...] = ()
    """The scalars of the launch file, once it is read: see with_launch_file."""
    launched_bytes: tuple[tuple[str, bytes], ...] = ()
    """The aggregates of the launch file, by PTX name."""
    constants: tuple[tuple[str, bytes], ...] = ()
    """What ``.const`` variables hold in the launch of the launch file."""


@dataclass(frozen=True, slots=True)
class RefusedKernel:
    """A kernel without a bound, and every reason."""

    kernel: Kernel
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class FileAnswer:
    """The answer for each kernel asked for, in file order."""

    path: str
    sha256: str
    machine: Machine
    kernels: tuple[KernelAnalysis | RefusedKernel, ...]

    @property
    def bounded(self) -> tuple[KernelAnalysis, ...]:
        """The kernels that have a bound."""
        return tuple(row for row in self.kernels if isinstance(row, KernelAnalysis))

    @property
    def refused(self) -> tuple[RefusedKernel, ...]:
        """The kernels that have none."""
        return tuple(row for row in self.kernels if isinstance(row, RefusedKernel))


def refuse(kernel: Kernel, error: Exception) -> RefusedKernel:
    """The refusal of a kernel whose analysis raised ``error``.

    What is no PtxwcetError is a bug of ours (PW901): it costs this kernel only, the others of the
    file are answered.
    """
    if isinstance(error, PtxwcetError):
        return RefusedKernel(kernel, error.diagnostics)
    return RefusedKernel(kernel, (internal_error(error, f"kernel {kernel.name}"),))


def bound_file(request: Request) -> FileAnswer:
    """Bounds each requested kernel. Raises PtxwcetError for input that concerns no single kernel.

    Cost: linear in the file, independent of trip counts.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    text = read_source(request.path)
    module = parse_module(text)
    facts = state_facts(request, module)
    request = with_launch_file(request, module, facts)
    kernels = select_kernels(module.kernels, request.kernels, request.path)
    policy = find_named_policy(request)
    rows: list[KernelAnalysis | RefusedKernel] = []
    for kernel in kernels:
        try:
            own = facts.of_kernel(kernel.name)
            launch = build_launch(kernel, request, own)
            rows.append(
                analyse_kernel(
                    inline_calls(kernel, module),
                    launch,
                    machine,
                    own,
                    unknown_at_worst=request.unknown_at_worst,
                    policy=policy,
                    method=request.method,
                )
            )
        except Exception as error:
            rows.append(refuse(kernel, error))
    return FileAnswer(request.path, file_digest(request.path), machine, tuple(rows))


def file_digest(path: str) -> str:
    """The SHA-256 of the bytes of a file that has been read before, in hexadecimal."""
    return hashlib.sha256(read_bytes(path, MOST_TEXT_BYTES)).hexdigest()


def state_facts(request: Request, module: Module) -> StatedFacts:
    """Everything that options, facts file and the PTX's comments say about the file's kernels.

    What an internal error keeps from being read costs the kernels that it may concern: see
    UnreadFact. Raises PtxwcetError: PW213, PW216 (options), PW240 to PW245 (facts file), PW248,
    PW249 (comments).
    """
    marks, unread = find_marks(module, cuda_source(request))
    options = StatedFacts(
        loops=parse_loop_bounds(request.loop_bounds),
        parameters=parse_parameters(request.parameters),
        marks=marks,
        unread=unread,
    )
    if request.facts_file is None:
        return options
    names = [kernel.name for kernel in module.kernels]
    file = read_flow_facts(request.facts_file, file_digest(request.path), names)
    return replace(
        file,
        loops=(*options.loops, *file.loops),
        parameters=(*options.parameters, *file.parameters),
        marks=options.marks,
        unread=(*options.unread, *file.unread),
    )


def find_named_policy(request: Request) -> Policy | None:
    """The known policy, None without one. Raises PtxwcetError (PW530, PW536)."""
    if request.policy is not None:
        return find_policy(request.policy)
    if request.method == SCHEDULED:
        raise PtxwcetError(
            Diagnostic(
                "PW536",
                "the method scheduled needs to know the scheduling policy",
                help="name it, for example --policy gto",
            )
        )
    return None


def select_kernels(kernels: Sequence[Kernel], names: Sequence[str], path: str) -> list[Kernel]:
    """The kernels named, or all. Raises PtxwcetError (PW208) if there is no such kernel."""
    bodies = [kernel for kernel in kernels if kernel.has_body]
    missing = [name for name in names if name not in {kernel.name for kernel in bodies}]
    if missing or not bodies:
        known = ", ".join(kernel.name for kernel in bodies) or "none"
        what = f"{path} has no kernel {missing[0]!r}" if missing else f"{path} has no kernel"
        raise PtxwcetError(
            Diagnostic(
                "PW208",
                what,
                notes=(f"its kernels: {known}",),
                help="a kernel is an .entry with a body; --kernel names one",
            )
        )
    return [kernel for kernel in bodies if not names or kernel.name in names]


def with_launch_file(request: Request, module: Module, facts: StatedFacts) -> Request:
    """The request with what its launch file says, if it names one; ``facts`` are state_facts'.

    Raises PtxwcetError: the file's problems (PW420 to PW425), and PW426 for an option or a facts
    file that contradicts it. Its arrays are not built, but for aggregates and constants.
    """
    if request.launch_file is None:
        return request
    # here: only commands with a launch file load numpy
    from ptxwcet.emulator.launch_files import read_launch_file
    from ptxwcet.emulator.layout import constant_bytes

    launch = read_launch_file(
        request.launch_file, module, lambda kernel: cuda_parameter_names(kernel, request)
    )
    name = launch.kernel.name
    if request.kernels and set(request.kernels) != {name}:
        raise _contradiction(f"--kernel {request.kernels[0]}", launch.place("kernel"), name)
    sizes = {"block": launch.block, "grid": launch.grid}
    for key, given in (("block", request.block), ("grid", request.grid)):
        if given is not None and parse_dim3(given, key) != sizes[key]:
            shown = "x".join(map(str, sizes[key]))
            raise _contradiction(f"--{key} {given}", launch.place(key), shown)
    launched = tuple(
        ParameterFact(key, str(value), FactSource(launch.argument_place(key)))
        for key, value in launch.scalars.items()
    )
    names = cuda_parameter_names(launch.kernel, request)
    for fact in facts.of_kernel(name).parameters:
        _check_against_launch(launch, launched, fact, names)
    return replace(
        request,
        kernels=(name,),
        block="x".join(map(str, launch.block)),
        grid="x".join(map(str, launch.grid)),
        launched=launched,
        launched_bytes=tuple(launch.aggregate_bytes().items()),
        constants=tuple(constant_bytes(module, launch.constant_bytes()).items()),
        launch_file=None,
    )


def _check_against_launch(
    launch: LaunchFile,
    launched: tuple[ParameterFact, ...],
    fact: ParameterFact,
    names: Sequence[str] | None,
) -> None:
    """Raises PtxwcetError (PW426) for a parameter that a launch file gives another value."""
    stated = resolve_parameters(launch.kernel, (fact,), names)
    for key in (*stated.values, *stated.ranges):
        place = launch.argument_place(key)
        if key not in launch.scalars:
            raise _contradiction(fact.source.name, place, "an array")
        try:
            resolve_parameters(launch.kernel, (*launched, fact), names)
        except PtxwcetError:
            raise _contradiction(fact.source.name, place, str(launch.scalars[key])) from None


def _contradiction(option: str, place: str, written: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW426",
            f"{option} contradicts {place}, which says {written}",
            help="leave one of them out, or let both say the same",
        )
    )


def build_launch(kernel: Kernel, request: Request, facts: StatedFacts) -> Launch:
    """The launch facts for one kernel; ``facts`` are those that concern it.

    Raises PtxwcetError (PW209 to PW215).
    """
    block: Dim3
    if request.block is not None:
        block = parse_dim3(request.block, "block")
    elif kernel.required_threads is not None:
        block = kernel.required_threads
    else:
        raise PtxwcetError(
            Diagnostic(
                "PW209",
                f"the block size of kernel {kernel.name} is not known",
                kernel.span,
                help="give the threads of a block, for example --block 256 or --block 32x8",
            )
        )
    grid = None if request.grid is None else parse_dim3(request.grid, "grid")
    names = cuda_parameter_names(kernel, request)
    known = resolve_parameters(kernel, (*request.launched, *facts.parameters), names)
    data, constants = dict(request.launched_bytes), dict(request.constants)
    called = (
        {} if names is None else dict(zip((p.name for p in kernel.parameters), names, strict=True))
    )
    arrays = resolve_arrays(kernel, facts.arrays, names)
    return Launch(block, grid, known.values, known.ranges, data, constants, called, arrays)


def cuda_parameter_names(kernel: Kernel, request: Request) -> tuple[str, ...] | None:
    """Names from the CUDA source given or lying beside the file; None without one that fits."""
    source = cuda_source(request)
    names = None if source is None else parameter_names(source.text, kernel.name)
    return names if names is not None and len(names) == len(kernel.parameters) else None


def cuda_source(request: Request) -> CudaSource | None:
    """The CUDA source given, or the one lying beside the file, if there is one.

    Raises PtxwcetError (PW213) for one that is given and cannot be read.
    """
    path = Path(request.source or Path(request.path).with_suffix(".cu"))
    try:
        return CudaSource(path.name, read_text(path, MOST_TEXT_BYTES, "replace"))
    except OSError as error:
        if request.source is None:
            return None
        raise PtxwcetError(
            Diagnostic("PW213", f"cannot read --source '{path}': {error.strerror}")
        ) from None
