"""Lanes of a group of warps: thread indices, special registers, parameters, register values.

Of memory nobody writes during a launch, parameters and ``.const`` variables, bytes are known that
the launch says. The address of such a variable is a symbol of which nothing is known but that sums
with it are what they are: a load from the symbol plus a known number finds its bytes, and comparing
two addresses in one variable is comparing their offsets.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Collection, Mapping
from types import MappingProxyType

import numpy as np

from ptxwcet.flow.launch import WARP_SIZE, Launch
from ptxwcet.flow.values.accesses import field_name, parameters_of
from ptxwcet.flow.values.integers import IntegerType, per_lane_exact
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.ranges import bounded
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import (
    Cause,
    CauseKind,
    Known,
    Mask,
    Number,
    Unknown,
    Value,
    merge,
    wrap,
)
from ptxwcet.ir.kernel import Kernel, Parameter, Space, SymbolRef, counts_at_mbarriers
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.support.records import dataclass

# More values than any type has: no operation but a sum or a difference is known of an address.
_ADDRESSES = 1 << 65
_SERIAL = -2_000_000
_FLOATS = {"f32": "<f", "f64": "<d"}


class FixedMemory:
    """The bytes that a launch fixes, by state space and variable."""

    def __init__(self, kernel: Kernel, launch: Launch) -> None:
        private = {p.name for p in kernel.parameters} | {v.name for v in kernel.variables}
        given = _parameter_bytes(parameters_of(kernel), launch)
        constants = {n: data for n, data in launch.constants.items() if n not in private}
        words = {name: data for name, data in given.items() if name not in private}
        self._spaces: Mapping[Space, Mapping[str, bytes]] = {
            Space.PARAM: given,
            Space.CONST: words | constants,
        }
        self._addresses: dict[str, Symbol] = {}
        self._shared = frozenset[str]()
        if counts_at_mbarriers(kernel):
            own = {one.name for one in kernel.variables if one.space == "shared"}
            self._shared = frozenset(own | outer_shared(kernel, private | self._constants()))

    def address(self, name: str) -> Known | None:
        """The address of a variable; None if nothing of it is known."""
        known = any(name in variables for variables in self._spaces.values())
        if not known and name not in self._shared:
            return None
        symbol = self._addresses.get(name)
        if symbol is None:
            cause = Cause(CauseKind.LAUNCH, f"address of {name}")
            symbol = Symbol(name, _SERIAL, _ADDRESSES, fixed=True, is_own=True)
            symbol.origin = frozenset({cause})
            self._addresses[name] = symbol
        return Known(0, {symbol: 1})

    def _constants(self) -> set[str]:
        return {name for variables in self._spaces.values() for name in variables}

    def word(self, space: Space, name: str, offset: int, kind: IntegerType) -> Known | None:
        """What lies at ``offset`` bytes in a variable; None if it is not known."""
        variables = self._spaces.get(space, {})
        data, own = variables.get(name), variables.get(field_name(name, offset))
        if data is None and own is not None and len(own) * 8 == kind.bits:
            data, offset = own, 0
        if data is None or not 0 <= offset <= len(data) - kind.bits // 8:
            return None
        return Known(_number(data, offset, kind))

    def load(self, space: Space, address: Known, kind: IntegerType, active: Mask) -> Known | None:
        """What lies at an address in the active lanes; None if that is not known of all."""
        if len(address.terms) != 1:
            return None
        ((symbol, factor),) = address.terms.items()
        data = self._spaces.get(space, {}).get(symbol.name)
        if data is None or self._addresses.get(symbol.name) is not symbol:
            return None
        if not _all(factor == np.int64(1), active) or not active.any():
            return None
        last = len(data) - kind.bits // 8
        offsets = address.base
        if not _all((np.asarray(offsets) >= 0) & (np.asarray(offsets) <= last), active):
            return None
        words = per_lane_exact(
            lambda at: _number(data, at, kind) if 0 <= at <= last else 0, offsets
        )
        return Known(words if isinstance(words, int) else words.astype(np.int64))


def is_variable(symbol: Symbol) -> bool:
    """Whether a symbol is the address of a variable; others are of what was computed."""
    return symbol.serial == _SERIAL


def outer_shared(kernel: Kernel, names: Collection[str]) -> set[str]:
    """The variable outside of a kernel that it takes the address of, if that is a single one.

    Of several without a size each may be another name of dynamic shared memory.
    """
    found = {
        operand.name
        for one in kernel.instructions
        if one.control is ControlEffect.NONE
        for operand in one.operands
        if isinstance(operand, SymbolRef)
    }
    found = found.difference(names)
    return found if len(found) == 1 else set()


def _all(outcome: object, active: Mask) -> bool:
    return bool(np.broadcast_to(np.asarray(outcome, dtype=bool), active.shape)[active].all())


def _number(data: bytes, offset: int, kind: IntegerType) -> int:
    number: Number = int.from_bytes(data[offset : offset + kind.bits // 8], "little")
    number = wrap(number, kind.bits)
    assert isinstance(number, int)
    return number


def _parameter_bytes(parameters: tuple[Parameter, ...], launch: Launch) -> dict[str, bytes]:
    """Aggregates as the launch gives them, and numbers; not pointers, which it leaves open."""
    found = {}
    for parameter in parameters:
        size, value = parameter.size_bytes, launch.parameters.get(parameter.name)
        data = launch.parameter_bytes.get(parameter.name)
        if parameter.is_array and data is not None and len(data) == size:
            found[parameter.name] = data
        elif isinstance(value, int) and parameter.type[0] != "f" and not parameter.is_array:
            found[parameter.name] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        elif value is not None and parameter.type in _FLOATS and not math.isnan(value):
            with contextlib.suppress(OverflowError):
                found[parameter.name] = struct.pack(_FLOATS[parameter.type], value)
    return found


_AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """The block indices under analysis: on each axis ``first + symbol``, or just ``first``."""

    first: tuple[int, int, int]
    symbols: tuple[Symbol | None, Symbol | None, Symbol | None]


@dataclass(frozen=True, slots=True)
class Span:
    """The values of a parameter under analysis: ``first + step * s`` for ``0 <= s < count``.

    ``splittable``: parts of it may be analysed apart.
    """

    first: int
    step: int
    count: int
    splittable: bool = True

    def symbol(self, name: str) -> Symbol:
        """The symbol that stands for ``s``."""
        origin = frozenset({Cause(CauseKind.PARAMETER, name)})
        return Symbol(
            name,
            -1000,
            self.count,
            splittable=self.splittable,
            fixed=not self.splittable,
            is_parameter=True,
            origin=origin,
        )


NO_SPANS: Mapping[str, Span] = MappingProxyType({})


class LaneState:
    """Values of registers in the lanes of some warps that have followed one path so far.

    ``warps`` are warp numbers; lane ``i`` of row ``w`` of the masks is a thread. ``alive`` are the
    threads that exist and have not exited, ``active`` those that execute now. Lanes that are not
    ``told_apart`` have indices of which ranges are known alone. Mutable: owned by one walk.
    """

    def __init__(
        self,
        kernel: Kernel,
        launch: Launch,
        index: BlockIndex,
        warps: tuple[int, ...],
        spans: Mapping[str, Span] = NO_SPANS,
        *,
        told_apart: bool = True,
    ) -> None:
        self.kernel = kernel
        self.launch = launch
        self.index = index
        self.warps = warps
        threads = np.concatenate([np.arange(w * WARP_SIZE, (w + 1) * WARP_SIZE) for w in warps])
        self.alive: Mask = threads < launch.threads
        self.active: Mask = self.alive.copy()
        self.registers: dict[str, Value] = {}
        self._spans = {name: (span, span.symbol(name)) for name, span in spans.items()}
        self._specials = self._special_values(threads.astype(np.int64))
        if not told_apart:
            self._specials = {n: self._in_any_lane(n, v) for n, v in self._specials.items()}
        self._parameters = {p.name: p for p in parameters_of(kernel)}
        self._fixed = FixedMemory(kernel, launch)

    def _special_values(self, threads: np.ndarray) -> dict[str, Known]:
        x, y, z = self.launch.block
        lane = threads % WARP_SIZE
        values = {
            "%tid.x": Known(threads % x),
            "%tid.y": Known(threads // x % y) if y > 1 else Known(0),
            "%tid.z": Known(threads // (x * y)) if z > 1 else Known(0),
            "%laneid": Known(lane),
            "%lanemask_eq": Known(wrap(np.int64(1) << lane, 32)),
            "%lanemask_lt": Known(wrap((np.int64(1) << lane) - 1, 32)),
            "%lanemask_le": Known(wrap((np.int64(2) << lane) - 1, 32)),
            "%lanemask_gt": Known(wrap(-(np.int64(2) << lane), 32)),
            "%lanemask_ge": Known(wrap(-(np.int64(1) << lane), 32)),
        }
        if x == 1:
            values["%tid.x"] = Known(0)
        for axis, position in _AXES.items():
            values[f"%ntid.{axis}"] = Known(self.launch.block[position])
            if self.launch.grid is not None:
                values[f"%nctaid.{axis}"] = Known(self.launch.grid[position])
            symbol = self.index.symbols[position]
            terms = {symbol: 1} if symbol is not None else {}
            values[f"%ctaid.{axis}"] = Known(self.index.first[position], terms)
        return values

    def _in_any_lane(self, name: str, value: Known) -> Known:
        """A special register of which only the range over the lanes is known."""
        if isinstance(value.base, int):
            return value
        lanes = value.base[self.alive]
        causes = frozenset({Cause(CauseKind.LAUNCH, name)})
        return bounded(Interval(int(lanes.min()), int(lanes.max())), 32, causes)

    @property
    def parameter_symbols(self) -> tuple[Symbol, ...]:
        """The symbols that stand for parameters of which a range is known."""
        return tuple(symbol for _, symbol in self._spans.values())

    def register(self, name: str) -> Value:
        """The register's value in the active lanes; Unknown unless known in all of them."""
        value = self.registers.get(name)
        if value is None:
            return Unknown(frozenset({Cause(CauseKind.UNDEFINED, name)}))
        if isinstance(value, Known) and value.valid is not None:
            if np.count_nonzero(self.active & ~value.valid):
                return Unknown(value.otherwise)
            return Known(value.base, value.terms)
        return value

    def write(self, name: str, value: Value, mask: Mask) -> None:
        """Sets the register in the lanes of ``mask``; lanes that have exited do not matter."""
        if mask is self.alive or not np.count_nonzero(self.alive & ~mask):
            self.registers[name] = value
            return
        old = self.registers.get(name)
        if old is None:
            old = Unknown(frozenset({Cause(CauseKind.UNDEFINED, name)}))
        self.registers[name] = merge(old, value, mask)

    def special(self, name: str) -> Value:
        """A special register's value; Unknown when the launch does not fix it."""
        value = self._specials.get(name)
        if value is None:
            return Unknown(frozenset({Cause(CauseKind.LAUNCH, name)}))
        return value

    def parameter(self, name: str, offset: int, kind: IntegerType) -> Value | None:
        """What lies at ``offset`` bytes in a kernel parameter; None if there is none of the name.

        If only a range of a parameter is known, it is that of the whole parameter, or of a word of
        an aggregate.
        """
        parameter = self._parameters.get(name)
        return None if parameter is None else self._word(Space.PARAM, parameter, offset, kind)

    def constant(self, name: str, offset: int, kind: IntegerType) -> Value | None:
        """What lies at ``offset`` bytes in a ``.const`` variable; None if it has no such word."""
        word = self._parameters.get(field_name(name, offset))
        return None if word is None else self._word(Space.CONST, word, offset, kind)

    def _word(self, space: Space, held: Parameter, offset: int, kind: IntegerType) -> Value:
        """A word of a parameter, or a word that is one by itself."""
        name = held.name.partition("+")[0]
        value = self._fixed.word(space, name, offset, kind)
        if value is not None:
            return value
        word = self._parameters.get(field_name(name, offset))
        if word is not None:
            held, offset = word, 0
        if held.name in self._spans and offset == 0:
            span, symbol = self._spans[held.name]
            if kind.bits == 8 * held.size_bytes:
                terms = {symbol: span.step} if span.count > 1 else {}
                return Known(wrap(span.first, kind.bits), terms)
        return Unknown(frozenset({Cause(CauseKind.PARAMETER, held.name)}))

    def address(self, name: str) -> Known | None:
        """The address of a variable whose bytes the launch gives, as a symbol, or, of a kernel with
        mbarriers, of one in shared memory; None of another.
        """
        return self._fixed.address(name)

    def load(self, space: Space, address: Known, kind: IntegerType) -> Known | None:
        """What lies at an address in memory that cannot change; None if that is not known."""
        return self._fixed.load(space, address, kind, self.active)
