"""The launch of a kernel from options, facts and a launch file, checked for contradictions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeVar

from ptxwcet.flow.facts.parameters import (
    is_said,
    parameter_named,
    place_in_parameter,
    resolve_arrays,
    resolve_parameters,
)
from ptxwcet.flow.facts.stated import FactSource, ParameterFact, StatedFacts
from ptxwcet.flow.launch import Dim3, Launch, parse_dim3
from ptxwcet.flow.values.accesses import OF_CONSTANT, fields_of
from ptxwcet.ir.kernel import Kernel, Module, UnreadKernel
from ptxwcet.opened.cuda_text import cuda_names, cuda_parameter_names
from ptxwcet.opened.request import Request
from ptxwcet.support.demangling import names_meant
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

if TYPE_CHECKING:
    from ptxwcet.emulator.launch_model import LaunchFile

_Name = TypeVar("_Name")


@dataclass(frozen=True, slots=True)
class SaidByFile:
    """The contents of a launch file: sizes, scalars, aggregates and ``.const`` variables.

    Bytes are by PTX name. ``registers`` of a thread are None if the file does not state them, with
    their place; ``dynamic_shared_bytes`` is None without a launch file. ``array_bytes`` are the
    sizes of arrays that it describes.
    """

    block: Dim3 | None = None
    grid: Dim3 | None = None
    scalars: tuple[ParameterFact, ...] = ()
    aggregates: tuple[tuple[str, bytes], ...] = ()
    constants: tuple[tuple[str, bytes], ...] = ()
    dynamic_shared_bytes: int | None = None
    registers: int | None = None
    registers_place: str = ""
    array_bytes: Mapping[str, int] = field(default_factory=dict)


def with_launch_file(
    request: Request, module: Module, facts: StatedFacts
) -> tuple[Request, SaidByFile]:
    """Returns the request with the contents of its launch file, if any; ``facts`` are state_facts'.

    Raises PtxwcetError: the file's problems (PW420 to PW425), and PW426 for an option or a facts
    file that contradicts it. Its arrays are not built, except aggregates and constants.
    """
    if request.launch_file is None:
        return request, SaidByFile()
    # imported here: only commands with a launch file load numpy
    from ptxwcet.emulator.launch_files import read_launch_file
    from ptxwcet.emulator.layout import constant_bytes

    launch = read_launch_file(
        request.launch_file,
        module,
        lambda kernel: cuda_parameter_names(kernel, request),
        of_bound=True,
    )
    name = launch.kernel.name
    if request.kernels and not all(names_meant(kernel, (name,)) for kernel in request.kernels):
        raise _contradiction(
            f"--kernel {request.kernels[0]}", launch.place("kernel"), launch.kernel.readable
        )
    sizes = {"block": launch.block, "grid": launch.grid}
    for key, given in (("block", request.block), ("grid", request.grid)):
        if given is not None and parse_dim3(given, key) != sizes[key]:
            shown = "x".join(map(str, sizes[key]))
            raise _contradiction(f"--{key} {given}", launch.place(key), shown)
    shared, written = request.gpu.dynamic_shared, launch.dynamic_shared_bytes
    if shared not in (None, written):
        place = launch.place("dynamic_shared_bytes")
        raise _contradiction(f"--dynamic-shared {shared}", place, str(written))
    scalars = tuple(
        ParameterFact(key, value, FactSource(launch.argument_place(key)))
        for key, value in launch.scalars.items()
    )
    names = cuda_names(launch.kernel, request)
    constants = constant_bytes(module, launch.constant_bytes())
    for fact in facts.of_kernel(name).parameters:
        _check_against_launch(launch, scalars, fact, names, constants)
    stated = SaidByFile(
        launch.block,
        launch.grid,
        scalars,
        tuple(launch.aggregate_bytes().items()),
        tuple(constants.items()),
        launch.dynamic_shared_bytes,
        launch.registers_per_thread,
        launch.place("registers_per_thread"),
        launch.sizes_of_arrays,
    )
    return replace(request, kernels=(name,), launch_file=None), stated


def _check_against_launch(
    launch: LaunchFile,
    scalars: tuple[ParameterFact, ...],
    fact: ParameterFact,
    names: Mapping[str, str],
    constants: Mapping[str, bytes],
) -> None:
    """Raises PtxwcetError (PW426) for a parameter that a launch file gives another value, or a
    larger array.
    """
    stated = resolve_parameters(launch.kernel, (fact,), names)
    for key, size in stated.sizes.items():
        held = launch.array_bytes(key)
        if size < held:
            shown = f"an array of {held:,} bytes"
            raise _contradiction(fact.source.name, launch.argument_place(key), shown)
    given = {argument.parameter.name for argument in launch.arguments}
    given_bytes = {**launch.aggregate_bytes(), **constants}
    for key in (*stated.values, *stated.ranges):
        whole, _, offset = key.partition("+")
        if whole in given_bytes:
            word = fields_of(launch.kernel)[key]
            data = given_bytes[whole][int(offset) :][: word.size_bytes]
            if not is_said(stated, word, data):
                is_constant = word.index == OF_CONSTANT
                place = launch.place("variables") if is_constant else launch.argument_place(whole)
                shown = f"{int.from_bytes(data, 'little'):#x} there"
                raise _contradiction(fact.source.name, place, shown)
        if key not in given:
            continue
        place = launch.argument_place(key)
        if key not in launch.scalars:
            raise _contradiction(fact.source.name, place, "an array")
        try:
            resolve_parameters(launch.kernel, (*scalars, fact), names)
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


def foreign_names(
    request: Request, kernels: Sequence[Kernel], names: Collection[str]
) -> frozenset[tuple[str, str]]:
    """Returns kernels with those names of parameters that only other kernels have.

    A value that is given for several kernels applies to those with the parameter.
    """
    if len(kernels) < 2 or not names:
        return frozenset()
    own = {
        kernel.name: {
            name
            for name in names
            if parameter_named(kernel, name, called) or place_in_parameter(kernel, name, called)
        }
        for kernel in kernels
        if not isinstance(kernel, UnreadKernel)
        for called in (cuda_names(kernel, request),)
    }
    return what_others_have(own)


def what_others_have(own: Mapping[str, set[_Name]]) -> frozenset[tuple[str, _Name]]:
    """Returns each kernel with the names that only other kernels have."""
    known = set[_Name]().union(*own.values())
    return frozenset((kernel, name) for kernel in own for name in known - own[kernel])


def build_launch(kernel: Kernel, request: Request, facts: StatedFacts, file: SaidByFile) -> Launch:
    """Returns the launch of one kernel; ``facts`` are the facts about it.

    Raises PtxwcetError (PW209 to PW215).
    """
    if file.block is not None:
        block = file.block
    elif request.block is not None:
        block = parse_dim3(request.block, "block")
    elif kernel.required_threads is not None:
        block = kernel.required_threads
    else:
        raise PtxwcetError(
            Diagnostic(
                "PW209",
                f"the block size of kernel {kernel.readable} is not known",
                kernel.span,
                help="give the threads of a block, for example --block 256 or --block 32x8",
            )
        )
    grid = file.grid
    if grid is None and request.grid is not None:
        grid = parse_dim3(request.grid, "grid")
    called = cuda_names(kernel, request)
    scalars = resolve_parameters(kernel, (*file.scalars, *facts.parameters), called)
    data, constants = dict(file.aggregates), dict(file.constants)
    arrays = resolve_arrays(kernel, facts.arrays, called)
    held = data.keys() | constants.keys()
    values = {key: one for key, one in scalars.values.items() if key.partition("+")[0] not in held}
    ranges = {key: one for key, one in scalars.ranges.items() if key.partition("+")[0] not in held}
    stated = values, ranges, data, constants, called, arrays, scalars.alignments
    return Launch(block, grid, *stated, scalars.sizes, scalars.boxes)
