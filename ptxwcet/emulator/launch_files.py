"""Reads launch files: the kernel to run, its grid, block and arguments, the expected results.

TOML, described in ``docs/launch-files.md``. Reading a launch file checks everything that needs no
data; :meth:`LaunchFile.values` builds the arrays. Problems are PW420 (unreadable), PW421 (not
TOML), PW422 (unknown key or name), PW423 (missing), PW424 (malformed) and PW425 (does not fit),
each with its place in the file; all problems of a file are reported at once.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ptxwcet.emulator.launch_arrays import (
    ArraySource,
    Malformed,
    array_source,
    check_fits,
)
from ptxwcet.emulator.launch_model import (
    ExpectedOutput,
    LaunchArgument,
    LaunchFile,
    LaunchVariable,
    locate,
    read_toml,
)
from ptxwcet.flow.facts.parameters import parameter_named
from ptxwcet.flow.launch import Dim3
from ptxwcet.ir.kernel import Kernel, Module, Parameter
from ptxwcet.support.demangling import names_meant
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.options import OPTIONS, Option
from ptxwcet.support.source import SourceFile, Span
from ptxwcet.support.toml_places import MOST_PROBLEMS, nearest

CudaNames = Callable[[Kernel], Sequence[str] | None]
"""The parameter names of a kernel's CUDA source, or None if it is not available."""

_NUMBERS = sorted(
    (item for item in OPTIONS.values() if item.launch_key), key=lambda item: item.launch_key
)
"""The options that are numbers in a launch file."""
_KEYS = (
    *("kernel", "grid", "block"),
    *(item.launch_key for item in _NUMBERS),
    *("arguments", "variables", "expected"),
)
_POINTERS = ("u64", "s64", "b64")  # types of parameters that may be pointers
_TOLERANCES = ("relative", "absolute")
_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_FLOATS = {"float16": "<e", "float32": "<f", "float64": "<d"}


def read_launch_file(
    path: str, module: Module, cuda_names: CudaNames, *, of_bound: bool = False
) -> LaunchFile:
    """Reads the launch file at ``path`` and checks it against the kernels of ``module``.

    ``of_bound``: nothing is run, so pointers and floats need no arguments.

    Raises PtxwcetError with all problems. Cost: linear in the file.
    """
    file, data = read_toml(path)
    reader = _Reader(file, module, of_bound)
    launch = reader.read(data, cuda_names)
    if reader.problems or launch is None:
        raise PtxwcetError(reader.problems)
    return launch


class _Reader:
    """The reader of one file, which collects its problems."""

    def __init__(self, file: SourceFile, module: Module, of_bound: bool) -> None:
        self.file = file
        self.module = module
        self._of_bound = of_bound
        self.folder = Path(file.name).parent
        self.problems: list[Diagnostic] = []

    def report(self, code: str, message: str, place: tuple[str, str], help: str | None) -> None:
        """Adds a problem at ``place``, a pair of table name ("" for the top level) and key."""
        if len(self.problems) >= MOST_PROBLEMS:
            return
        span = locate(self.file, *place)
        where = "" if span is not None else f"{self.file.name}: "
        self.problems.append(Diagnostic(code, where + message, span, help=help))

    @contextmanager
    def _reported(self, subject: str, place: tuple[str, str]) -> Iterator[None]:
        """Adds a Malformed error of its body to the problems."""
        try:
            yield
        except Malformed as problem:
            self.report(problem.code, f"{subject}: {problem.message}", place, problem.help)

    def read(self, data: Mapping[str, Any], cuda_names: CudaNames) -> LaunchFile | None:
        for key in data:
            if key not in _KEYS:
                listed = f"{nearest(key, _KEYS)}known: {_list(_KEYS)}"
                self.report("PW422", f"unknown key {key!r}", ("", key), listed)
        kernel = self._kernel(data.get("kernel"))
        if kernel is None:
            return None
        block = self._size("block", data.get("block", kernel.required_threads))
        grid = self._size("grid", data.get("grid"))
        numbers = {
            item.launch_key: self._number(item, data.get(item.launch_key)) for item in _NUMBERS
        }
        arguments = self._arguments(kernel, data, cuda_names(kernel))
        variables = self._variables(data)
        expected = self._expected(data, arguments)
        if self.problems or block is None or grid is None:
            return None
        return LaunchFile(self.file, kernel, block, grid, numbers, arguments, variables, expected)

    def _kernel(self, name: object) -> Kernel | None:
        kernels = self.module.kernels
        listed = f"its kernels: {_list(kernel.readable for kernel in kernels)}"
        source = self.module.source.name
        if name is None and len(kernels) == 1:
            return kernels[0]
        meant = names_meant(name, (k.name for k in kernels)) if isinstance(name, str) else ()
        named = [kernel for kernel in kernels if kernel.name in meant]
        if len(named) == 1:
            return named[0]
        if not kernels:
            self.report("PW208", f"{source} has no kernel", ("", "kernel"), None)
        elif name is None:
            message = f"kernel is missing, and {source} has {len(kernels)} of them"
            self.report("PW423", message, ("", "kernel"), listed)
        elif not isinstance(name, str):
            self.report("PW424", f"kernel must be a name, not {name!r}", ("", "kernel"), listed)
        else:
            number = "several kernels" if named else "no kernel"
            near = "" if named else nearest(name, (kernel.readable for kernel in kernels))
            message = f"{source} has {number} {name!r}"
            self.report("PW208", message, ("", "kernel"), near + listed)
        return None

    def _size(self, key: str, value: object) -> Dim3 | None:
        """Reads a size: ``256``, ``"32x8"`` or ``[32, 8]``."""
        example = f'for example {key} = 256, {key} = "32x8" or {key} = [32, 8]'
        if value is None:
            self.report("PW423", f"{key} is missing", ("", key), example)
            return None
        sizes: list[object]
        if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,10}([x,]\s*[0-9]{1,10})*", value):
            sizes = [int(part) for part in re.split("[x,]", value)]
        else:
            sizes = list(value) if isinstance(value, (list, tuple)) else [value]
        numbers = [size for size in sizes if type(size) is int]
        if len(numbers) != len(sizes) or not 1 <= len(numbers) <= 3:
            message = f"{key} {value!r} is not a size: one to three positive numbers"
            self.report("PW424", message, ("", key), example)
            return None
        if min(numbers) < 1:
            elements = "blocks" if key == "grid" else "threads"
            message = f"{key} {value!r} has no {elements}: each size is at least 1"
            self.report("PW424", message, ("", key), example)
            return None
        x, y, z = (*numbers, 1, 1)[:3]
        return x, y, z

    def _number(self, option: Option, value: object) -> int | None:
        """Returns the value of an option that is a number; None if nothing is stated."""
        if value is None or option.kind.is_value(value):
            return value  # type: ignore[return-value]  # it is of the kind
        key, kind, unit = option.launch_key, option.kind, option.launch_unit
        message = f"{key} {value!r} is no number{unit} from {kind.least} to {kind.most}"
        self.report("PW424", message, ("", key), option.launch_remedy)
        return None

    def _table(self, data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = data.get(key, {})
        if isinstance(value, dict):
            return value
        self.report("PW424", f"{key} must be a table", ("", key), f"write [{key}]")
        return {}

    # --- arguments --------------------------------------------------------------------------------

    def _arguments(
        self, kernel: Kernel, data: Mapping[str, Any], names: Sequence[str] | None
    ) -> tuple[LaunchArgument, ...]:
        given: dict[int, LaunchArgument] = {}
        before = len(self.problems)
        seen: dict[int, str] = {}
        own = [parameter.name for parameter in kernel.parameters]
        called = dict(zip(own, names, strict=True)) if names and len(names) == len(own) else {}
        for name, value in self._table(data, "arguments").items():
            parameter = parameter_named(kernel, name, called)
            if parameter is None or parameter not in kernel.parameters:  # a word has no argument
                message = f"kernel {kernel.readable} has no parameter {name!r}"
                near = nearest(name, (*(names or ()), *own))
                listed = f"{near}its parameters: {_parameters(kernel, names)}"
                self.report("PW422", message, ("arguments", name), listed)
            elif parameter.index in seen:
                message = f"{seen[parameter.index]!r} and {name!r} are the same parameter"
                self.report("PW215", message, ("arguments", name), "give each parameter once")
            else:
                seen[parameter.index] = name
                place = ("arguments", name)
                with self._reported(f"argument {name}", place):
                    span = locate(self.file, *place)
                    read = self._value_of(parameter, value, span)
                    given[parameter.index] = LaunchArgument(parameter, name, read, span)
        missing = [p for p in kernel.parameters if p.index not in seen and self._is_needed(p)]
        if missing and len(self.problems) == before:
            shown = "; ".join(_describe(p, names) for p in missing)
            message = f"no argument for {shown}"
            at = ("", "arguments") if "arguments" in data else ("", "kernel")
            remedy = f"give all parameters of {kernel.readable}"
            if not self._of_bound:
                remedy += ": only a bound does without arrays and floats"
            self.report("PW423", message, at, remedy)
        return tuple(given[index] for index in sorted(given))

    def _is_needed(self, parameter: Parameter) -> bool:
        """Returns whether a parameter needs an argument; a possible pointer of a bound does not."""
        if not self._of_bound or parameter.is_array:
            return True
        return not parameter.type.startswith("f") and parameter.type not in _POINTERS

    def _value_of(
        self, parameter: Parameter, value: object, span: Span | None
    ) -> int | float | ArraySource:
        kind = parameter.type
        if not isinstance(value, dict):
            return _scalar(parameter, value)
        if "value" in value and "init" not in value:
            return _typed_scalar(parameter, value)
        source = array_source(value, self.folder, span)
        if not parameter.is_array and kind not in _POINTERS:
            raise Malformed(
                f"an array does not fit a scalar parameter of type .{kind}",
                "give a number",
                code="PW425",
            )
        return source

    # --- variables and expectations ---------------------------------------------------------------

    def _variables(self, data: Mapping[str, Any]) -> tuple[LaunchVariable, ...]:
        variables: list[LaunchVariable] = []
        declared = {v.name: v for v in self.module.variables if v.space in ("const", "global")}
        for name, value in self._table(data, "variables").items():
            place = ("variables", name)
            if name not in declared:
                message = f"the module has no .const or .global variable {name!r}"
                self.report("PW422", message, place, f"its variables: {_list(declared) or 'none'}")
                continue
            with self._reported(f"variable {name}", place):
                if not isinstance(value, dict):
                    raise Malformed("give an array", "a table with dtype and init, values or file")
                source = array_source(value, self.folder, locate(self.file, *place))
                variables.append(LaunchVariable(declared[name], source))
        return tuple(variables)

    def _expected(
        self, data: Mapping[str, Any], arguments: Sequence[LaunchArgument]
    ) -> tuple[ExpectedOutput, ...]:
        outputs: list[ExpectedOutput] = []
        arrays = {
            argument.name: argument.parameter.index
            for argument in arguments
            if isinstance(argument.value, ArraySource) and not argument.parameter.is_array
        }
        for name, value in self._table(data, "expected").items():
            place = ("expected", name)
            if name not in arrays:
                if not self.problems:  # otherwise the error may be in the argument
                    message = f"expected {name!r} is not an array among the arguments"
                    self.report("PW422", message, place, f"arrays: {_list(arrays) or 'none'}")
                continue
            with self._reported(f"expected {name}", place):
                outputs.append(self._output(arrays[name], value, locate(self.file, *place)))
        return tuple(outputs)

    def _output(self, index: int, value: object, span: Span | None) -> ExpectedOutput:
        if not isinstance(value, dict):
            raise Malformed("give an array", "a table with file, or with dtype and init or values")
        tolerances = {key: value.get(key, 0.0) for key in _TOLERANCES}
        for key, number in tolerances.items():
            if type(number) not in (int, float) or not 0 <= number < float("inf"):
                raise Malformed(f"{key} must be a tolerance of 0 or more, not {number!r}")
        table = {key: entry for key, entry in value.items() if key not in _TOLERANCES}
        source = array_source(table, self.folder, span)
        return ExpectedOutput(index, source, tolerances["relative"], tolerances["absolute"])


# --- values ---------------------------------------------------------------------------------------


_OF_BITS = {"b32": "<f", "b64": "<d"}
"""The types that state only a size: a number with a point is a floating-point number."""


def _scalar(parameter: Parameter, value: object) -> int | float:
    """Reads a number for a scalar parameter. Raises Malformed."""
    kind = parameter.type
    if parameter.is_array:
        raise Malformed(
            f"it is an aggregate of {parameter.size_bytes} bytes, not a number",
            'give its bytes: { dtype = "uint8", values = [...] }',
        )
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Malformed(
            f"a .{kind} needs a number or an array, not {value!r}",
            "numbers are written without quotes",
        )
    if kind[0] == "f":
        check_fits(value, f"float{kind[1:]}")
        return float(value)
    if isinstance(value, float) and kind in _OF_BITS:
        check_fits(value, f"float{kind[1:]}")
        return int.from_bytes(struct.pack(_OF_BITS[kind], value), "little")
    if isinstance(value, float):
        raise Malformed(
            f"{value!r} is not an integer, as .{kind} needs",
            'bits of a float: { value = 1.5, dtype = "float32" }',
        )
    bits = int(kind[1:])
    # A .u32 holds C's int and unsigned: a value that fits either reading is accepted.
    if not -(1 << (bits - 1)) <= value < (1 << bits):
        raise Malformed(f"{value} does not fit .{kind}", f"at most {bits} bits", code="PW425")
    return value


def _typed_scalar(parameter: Parameter, table: Mapping[str, Any]) -> int | float:
    """Reads ``{ value = 1.5, dtype = "float32" }``: the stated type, bits for integers."""
    unknown = [key for key in table if key not in ("value", "dtype")]
    if unknown:
        raise Malformed(f"unknown key {unknown[0]!r}", "a scalar takes value and dtype", "PW422")
    dtype, value = table.get("dtype"), table["value"]
    if dtype not in (None, *_FLOATS, *_INTEGERS):
        listed = _list((*_FLOATS, *_INTEGERS))
        raise Malformed(f"dtype {dtype!r} is none of a scalar", f"one of {listed}")
    if dtype not in _FLOATS or parameter.type[0] == "f":
        if dtype is not None and dtype.lstrip("uinfloat") != parameter.type[1:]:
            raise Malformed(f"{dtype} does not fit .{parameter.type}", code="PW425")
        return _scalar(parameter, value)
    if type(value) not in (int, float):
        raise Malformed(f"value must be a number, not {value!r}")
    check_fits(value, dtype)
    data = struct.pack(_FLOATS[dtype], value)
    if len(data) != parameter.size_bytes:
        raise Malformed(f"{dtype} does not fit .{parameter.type}", code="PW425")
    return int.from_bytes(data, "little")


# --- names and places -----------------------------------------------------------------------------


def _describe(parameter: Parameter, names: Sequence[str] | None) -> str:
    return parameter.described(None if names is None else names[parameter.index])


def _parameters(kernel: Kernel, names: Sequence[str] | None) -> str:
    return "; ".join(_describe(parameter, names) for parameter in kernel.parameters) or "none"


def _list(names: Any) -> str:
    return ", ".join(names)
