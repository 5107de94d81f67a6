"""Lays out a launch's arguments, variables, shared and local memory in an arena."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ptxwcet.emulator.launch import Argument, Array, EmulatedLaunch
from ptxwcet.emulator.memory import BASE, LOCAL_GAP, Arena
from ptxwcet.emulator.races import ClockRaces, EpochRaces, Races, orders_some_warps
from ptxwcet.emulator.registers import dtype_of
from ptxwcet.ir.kernel import Kernel, Module, Parameter, Variable
from ptxwcet.ir.operation import type_bytes
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


class Layout:
    """The arena of a launch, its symbols as ``mov`` reads them, and the places of the buffers.

    Raises PtxwcetError (PW412: an argument does not fit, PW413: an initialiser cannot be read).
    """

    def __init__(self, kernel: Kernel, module: Module, launch: EmulatedLaunch) -> None:
        self.arena = Arena()
        self.symbols: dict[str, int] = {}
        self.buffers: list[tuple[int, Array] | None] = []
        self._threads = math.prod(launch.block)
        self._arguments(kernel, launch)
        given = dict(launch.variables)
        self._constants([v for v in module.variables if v.space == "const"], given)
        for variable in module.variables:
            if variable.space == "global":
                start, _ = self._reserve(variable, given)
                self.symbols[variable.name] = BASE + start
        variables = (*module.variables, *kernel.variables)
        self._shared([v for v in variables if v.space == "shared"], launch.dynamic_shared)
        self._private(variables)
        for array in variables:  # a[i] counts in scalars of the type, for vectors too
            self.symbols[f"element.{array.name}"] = type_bytes(array.type)
        self.arena.build()
        self.arena.races = self._races(kernel)

    def _arguments(self, kernel: Kernel, launch: EmulatedLaunch) -> None:
        if len(launch.arguments) != len(kernel.parameters):
            raise _misfit(
                kernel, f"{len(launch.arguments)} arguments for {len(kernel.parameters)} parameters"
            )
        for parameter, argument in zip(kernel.parameters, launch.arguments, strict=True):
            buffer = None
            value: Argument = argument
            if isinstance(argument, np.ndarray):
                start = self.arena.reserve(argument.nbytes, argument.tobytes(), parameter.name)
                buffer, value = (start, argument), BASE + start
            self.buffers.append(buffer)
            data = argument_bytes(kernel, parameter, value)
            place = self.arena.reserve(len(data), data, f"parameter {parameter.name}")
            self.arena.parameters.append((place, place + len(data)))
            self.symbols[parameter.name] = BASE + place

    def _reserve(self, variable: Variable, given: Mapping[str, bytes]) -> tuple[int, int]:
        """Reserves a variable of the module; returns its first and last index + 1."""
        data = given.get(variable.name) or initial_bytes(variable)
        start = self.arena.reserve(len(data), data, variable.name)
        return start, start + len(data)

    def _constants(self, variables: list[Variable], given: Mapping[str, bytes]) -> None:
        """Places constants together: their addresses are 32-bit offsets from the first constant."""
        ranges = self.arena.constant
        for variable in variables:
            ranges.append(self._reserve(variable, given))
            self.symbols[variable.name] = ranges[-1][0] - ranges[0][0]
        if ranges:
            self.symbols["window.const"] = BASE + ranges[0][0]

    def _shared(self, variables: list[Variable], dynamic: int) -> None:
        offsets, size = _offsets(variables)
        for variable in variables:
            if variable.size_bytes == 0:
                offsets[variable.name] = (size + 15) // 16 * 16
        total = _with_dynamic(size, dynamic)
        self.arena.shared = self.arena.reserve(total, None)
        self.arena.shared_end = self.arena.shared + total
        for variable in variables:
            start = self.arena.shared + offsets[variable.name]
            end = start + variable.size_bytes if variable.size_bytes else self.arena.shared_end
            self.arena.allocations.append((start, end, variable.name))
        self.symbols.update(offsets)
        self.symbols["window.shared"] = BASE + self.arena.shared

    def _private(self, variables: tuple[Variable, ...]) -> None:
        """Places the variables of a thread: local ones, and ``.param`` variables of a body."""
        private = [v for v in variables if v.space in ("local", "param")]
        offsets, size = _offsets(private)
        if size:
            self.arena.local_size = (size + 15) // 16 * 16 + LOCAL_GAP
        lanes = -(-self._threads // 32) * 32
        total = self.arena.local_size * lanes
        self.arena.local = self.arena.reserve(total, None)
        self.arena.local_end = self.arena.local + total
        window = self.symbols["window.local"] = BASE + self.arena.local
        for variable in private:
            start = offsets[variable.name]
            self.symbols[variable.name] = start + window * (variable.space == "param")

    def _races(self, kernel: Kernel) -> Races:
        size, warps = self.arena.shared_end - self.arena.shared, -(-self._threads // 32)
        some = warps > 1 and orders_some_warps(kernel)
        return ClockRaces(size, warps) if some else EpochRaces(size, warps)

    def results(self) -> tuple[Array | None, ...]:
        """Returns copies of the current buffers, in parameter order."""
        return tuple(self._result(buffer) for buffer in self.buffers)

    def _result(self, buffer: tuple[int, Array] | None) -> Array | None:
        if buffer is None:
            return None
        start, given = buffer
        data = self.arena.read(start, given.nbytes)
        return np.frombuffer(data, dtype=given.dtype).reshape(given.shape).copy()


def shared_bytes(kernel: Kernel, module: Module, dynamic: int) -> int:
    """Returns the shared memory of a block in bytes: the variables of kernel and module that the
    kernel names, and the dynamic bytes. Cost: linear in the kernel.
    """
    named = {name for instruction in kernel.instructions for name in instruction.names}
    shared = [v for v in (*module.variables, *kernel.variables) if v.space == "shared"]
    _, size = _offsets([v for v in shared if v.name in named])
    return _with_dynamic(size, dynamic)


def _with_dynamic(size: int, dynamic: int) -> int:
    return (size + 15) // 16 * 16 + dynamic if dynamic else size


def _offsets(variables: list[Variable]) -> tuple[dict[str, int], int]:
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables:
        alignment = max(variable.alignment, 1)
        offsets[variable.name] = end = (end + alignment - 1) // alignment * alignment
        end += variable.size_bytes
    return offsets, end


def argument_bytes(kernel: Kernel, parameter: Parameter, value: Argument) -> bytes:
    """Returns the bytes of an argument in parameter memory. Raises PtxwcetError (PW412)."""
    size = parameter.size_bytes
    if isinstance(value, bytes):
        if len(value) == size:
            return value
        raise _misfit(kernel, f"{parameter.name} has {size} bytes, {len(value)} are given")
    if parameter.is_array or isinstance(value, np.ndarray):
        raise _misfit(kernel, f"{parameter.name} needs {size} bytes")
    dtype = dtype_of(parameter.type)
    if dtype.kind == "f":
        return np.array(value, dtype=dtype).tobytes()
    if isinstance(value, int) and -(1 << 8 * size - 1) <= value < 1 << 8 * size:
        return (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    raise _misfit(kernel, f"{value} does not fit {parameter.name} (.{parameter.type})")


def initial_bytes(variable: Variable) -> bytes:
    """Returns the initial bytes of a module variable, zeros where it has no initialiser.

    Raises PtxwcetError (PW413) if they are unknown. Cost: linear.
    """
    return bytes(variable.size_bytes) if variable.initial is None else variable.initial(variable)


def constant_bytes(module: Module, given: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the contents of a module's ``.const`` variables in a launch: given, else as in PTX.

    Variables that another module defines, or whose initialiser has names, are omitted.
    """
    contents = {}
    for variable in module.variables:
        if variable.space != "const" or variable.linkage == "extern":
            continue
        try:
            contents[variable.name] = given.get(variable.name) or initial_bytes(variable)
        except PtxwcetError:
            continue
    return contents


def _misfit(kernel: Kernel, message: str) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW412", message, kernel.span))
