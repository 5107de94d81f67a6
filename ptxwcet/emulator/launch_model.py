"""Defines a checked launch as a launch file describes it, and reads the text of the file.

The arrays of the launch are built on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ptxwcet.emulator.launch_arrays import ArraySource, Difference, difference
from ptxwcet.flow.launch import Dim3
from ptxwcet.ir.kernel import Kernel, Parameter, Variable
from ptxwcet.support.array_files import Array
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_TOML_BYTES, read_text
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile, Span
from ptxwcet.support.toml_places import NotToml, parse_toml


def read_toml(path: str) -> tuple[SourceFile, dict[str, Any]]:
    """Reads text and tables of the file at ``path``. Raises PtxwcetError (PW420, PW421)."""
    file = _read_text(path)
    try:
        return file, parse_toml(file)
    except NotToml as problem:
        message = f"not TOML: {problem.message}"
        raise PtxwcetError(Diagnostic("PW421", message, problem.span)) from None


def _read_text(path: str) -> SourceFile:
    try:
        return SourceFile(path, read_text(path, MOST_TOML_BYTES))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PtxwcetError(
            Diagnostic("PW420", f"cannot read launch file '{path}': {reason}")
        ) from None


def locate(file: SourceFile, table: str, key: str) -> Span | None:
    """Returns the span of ``key`` in ``table``; None if absent (a dotted or inline form)."""
    text, name = file.text, rf"[\"']?{re.escape(key)}[\"']?"
    header = re.search(rf"^[ \t]*\[\s*{f'{table}.' if table else ''}{name}\s*\]", text, re.M)
    if header is not None:
        return Span(file, header.start(), header.end())
    begin, end = 0, len(text)
    if table:
        opening = re.search(rf"^[ \t]*\[\s*{table}\s*\]", text, re.M)
        if opening is None:
            return None
        begin = opening.end()
    following = re.compile(r"^[ \t]*\[", re.M).search(text, begin)
    if following is not None:
        end = following.start()
    entry = re.compile(rf"^[ \t]*({name}\s*=[^\n]*)", re.M).search(text, begin, end)
    return None if entry is None else Span(file, entry.start(1), entry.end(1))


@dataclass(frozen=True, slots=True)
class LaunchArgument:
    """The argument of one parameter. ``name`` is as the launch file writes it."""

    parameter: Parameter
    name: str
    value: int | float | ArraySource
    span: Span | None


@dataclass(frozen=True, slots=True)
class LaunchVariable:
    """The data that the host writes into a module variable before the launch."""

    variable: Variable
    source: ArraySource


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """The expected data of an array argument, with the tolerances of the comparison."""

    argument: int
    source: ArraySource
    relative: float
    absolute: float


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """The comparison of a result with the expected data; ``difference`` is None if it is right."""

    name: str
    expected: ExpectedOutput
    difference: Difference | None

    def diagnostic(self) -> Diagnostic | None:
        """Returns PW428 if the result is wrong."""
        wrong, expected = self.difference, self.expected
        if wrong is None:
            return None
        place = ", ".join(map(str, wrong.first))
        return Diagnostic(
            "PW428",
            f"{wrong.wrong:,} of {wrong.total:,} elements of {self.name} are not as expected",
            expected.source.span,
            notes=(
                f"the first is {self.name}[{place}] = {wrong.found}, expected {wrong.wanted}; the "
                f"largest finite difference is {wrong.worst_absolute:.6g}",
                f"tolerances: absolute = {expected.absolute:g}, relative = {expected.relative:g}",
            ),
        )


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """A checked launch file. ``arguments`` are in parameter order, and complete if it is to be run.

    ``numbers`` are the options that are numbers, by key, None where the file does not state them.
    """

    file: SourceFile
    kernel: Kernel
    block: Dim3
    grid: Dim3
    numbers: Mapping[str, int | None]
    arguments: tuple[LaunchArgument, ...]
    variables: tuple[LaunchVariable, ...]
    expected: tuple[ExpectedOutput, ...]

    @property
    def dynamic_shared_bytes(self) -> int:
        """The size of ``extern __shared__`` memory."""
        return self.numbers.get("dynamic_shared_bytes") or 0

    @property
    def registers_per_thread(self) -> int | None:
        """The registers of a thread, as the compiler reported them."""
        return self.numbers.get("registers_per_thread")

    @property
    def scalars(self) -> dict[str, int | float]:
        """The scalar arguments by PTX parameter name, which a bound can use."""
        return {
            argument.parameter.name: argument.value
            for argument in self.arguments
            if not isinstance(argument.value, ArraySource)
        }

    def place(self, key: str) -> str:
        """Returns ``file:line:col`` of a top-level key, for messages about it."""
        return str(locate(self.file, "", key) or self.file.name)

    def argument_place(self, parameter: str) -> str:
        """Returns ``file:line:col`` of the argument of a parameter, by PTX name, for messages.

        Raises KeyError if it has none.
        """
        spans = {argument.parameter.name: argument.span for argument in self.arguments}
        return str(spans[parameter] or self.file.name)

    def values(self) -> tuple[int | float | bytes | Array, ...]:
        """Returns the arguments with their arrays built, in parameter order; aggregates as bytes.

        Raises PtxwcetError (PW420, PW425). Cost: linear in the arrays.
        """
        return tuple(_value(argument) for argument in self.arguments)

    def array_bytes(self, parameter: str) -> int:
        """Returns the bytes of the array of a pointer, by PTX name; 0 if none is given.

        Raises PtxwcetError (PW420, PW425). Cost: linear in the array.
        """
        sources = {argument.parameter.name: argument.value for argument in self.arguments}
        source = sources.get(parameter)
        return source.build().nbytes if isinstance(source, ArraySource) else 0

    @property
    def sizes_of_arrays(self) -> dict[str, int]:
        """The bytes of the arrays of pointers, by PTX name, except arrays that are in files."""
        pairs = (
            (argument.parameter.name, argument.value.size_bytes)
            for argument in self.arguments
            if isinstance(argument.value, ArraySource) and not argument.parameter.is_array
        )
        return {name: size for name, size in pairs if size is not None}

    def variable_bytes(self) -> dict[str, bytes]:
        """Returns the bytes of the module variables given. Raises PtxwcetError (PW420, PW425)."""
        return _bytes_of(self.variables)

    def reseeded(self, number: int) -> LaunchFile:
        """Returns the launch with other seeds of its random arrays; itself for number 0.

        Aggregates and variables are kept: they are facts of the launch, as scalars are. Other
        inputs have no expected results.
        """
        if number == 0:
            return self
        arguments = []
        for argument in self.arguments:
            value = argument.value
            if is_random(argument):
                assert isinstance(value, ArraySource)
                seed = (int(value.settings["seed"]) + 0x9E3779B1 * number) % 2**32
                value = replace(value, settings={**value.settings, "seed": seed})
            arguments.append(replace(argument, value=value))
        return replace(self, arguments=tuple(arguments), expected=())

    def aggregate_bytes(self) -> dict[str, bytes]:
        """Returns the bytes of the aggregates by PTX parameter name, which a bound can use since
        they are given. Raises PtxwcetError (PW420, PW425).
        """
        return {
            row.parameter.name: _exact_bytes(row.value, row.parameter.size_bytes, row.name)
            for row in self.arguments
            if row.parameter.is_array and isinstance(row.value, ArraySource)
        }

    def constant_bytes(self) -> dict[str, bytes]:
        """Returns the bytes of the ``.const`` variables given, by name. Raises PtxwcetError (PW420,
        PW425).
        """
        return _bytes_of(v for v in self.variables if v.variable.space == "const")

    def check(self, results: Mapping[str, Array]) -> tuple[OutputCheck, ...]:
        """Compares results, by argument name, with the expected results.

        Raises PtxwcetError (PW420, PW425: an expected array that fits no result).
        """
        checks = []
        for output in self.expected:
            name = self.arguments[output.argument].name
            result = results[name]
            wanted = self.expected_array(output, result)
            wrong = difference(result, wanted, output.relative, output.absolute)
            checks.append(OutputCheck(name, output, wrong))
        return tuple(checks)

    def expected_array(self, output: ExpectedOutput, result: Array) -> Array:
        """Returns the expected data in the result's shape. Raises PtxwcetError (PW420, PW425)."""
        wanted = output.source.build()
        if wanted.size == result.size and wanted.dtype == result.dtype:
            return wanted.reshape(result.shape)
        name = self.arguments[output.argument].name
        raise _error(
            "PW425",
            f"expected {name} has {wanted.size} elements of {wanted.dtype}, the argument "
            f"{result.size} of {result.dtype}",
            output.source.span,
        )


def is_random(argument: LaunchArgument) -> bool:
    """Returns whether an argument is an array in global memory that is drawn by a seed."""
    value = argument.value
    if argument.parameter.is_array or not isinstance(value, ArraySource):
        return False
    return "seed" in value.settings


def _value(argument: LaunchArgument) -> int | float | bytes | Array:
    if not isinstance(argument.value, ArraySource):
        return argument.value
    if argument.parameter.is_array:
        return _exact_bytes(argument.value, argument.parameter.size_bytes, argument.name)
    return argument.value.build()


def _bytes_of(variables: Iterable[LaunchVariable]) -> dict[str, bytes]:
    return {
        v.variable.name: _exact_bytes(v.source, v.variable.size_bytes, v.variable.name)
        for v in variables
    }


def _exact_bytes(source: ArraySource, size: int, name: str) -> bytes:
    array = source.build()
    if array.nbytes != size:
        message = f"{name} holds {size} bytes, the array given has {array.nbytes}"
        raise _error("PW425", message, source.span)
    return array.tobytes()


def _error(code: str, message: str, span: Span | None) -> PtxwcetError:
    return PtxwcetError(Diagnostic(code, message, span))
