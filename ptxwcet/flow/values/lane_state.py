"""Lanes of a group of warps: thread indices, special registers, parameters, register values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ptxwcet.flow.launch import WARP_SIZE, Launch
from ptxwcet.flow.values.fixed_memory import FixedMemory
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.ranges import bounded
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Mask, Unknown, Value, merge, wrap
from ptxwcet.ir.kernel import Kernel, Space

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
        self._parameters = {p.name: p for p in kernel.parameters}
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
            if bool((self.active & ~value.valid).any()):
                return Unknown(value.otherwise)
            return Known(value.base, value.terms)
        return value

    def write(self, name: str, value: Value, mask: Mask) -> None:
        """Sets the register in the lanes of ``mask``; lanes that have exited do not matter."""
        if not bool((self.alive & ~mask).any()):
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

        If only a range of a parameter is known, it is that of the whole parameter.
        """
        parameter = self._parameters.get(name)
        if parameter is None:
            return None
        unknown = Unknown(frozenset({Cause(CauseKind.PARAMETER, name)}))
        if name in self._spans and offset == 0:
            span, symbol = self._spans[name]
            if kind.bits != 8 * parameter.size_bytes:
                return unknown
            terms = {symbol: span.step} if span.count > 1 else {}
            return Known(wrap(span.first, kind.bits), terms)
        value = self._fixed.word(Space.PARAM, name, offset, kind)
        return unknown if value is None else value

    def address(self, name: str) -> Known | None:
        """The address of a variable whose bytes the launch gives, as a symbol; None of another."""
        return self._fixed.address(name)

    def load(self, space: Space, address: Known, kind: IntegerType) -> Known | None:
        """What lies at an address in memory that cannot change; None if that is not known."""
        return self._fixed.load(space, address, kind, self.active)
