"""Memory that cannot change while a kernel runs and whose bytes the launch gives.

Parameters of the kernel and ``.const`` variables. The address of such a variable is a symbol of
which nothing is known but that sums with it are what they are: a load from the symbol plus a known
number finds its bytes, and comparing two addresses in one variable is comparing their offsets.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Mapping

import numpy as np

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Mask, Number, per_lane, wrap
from ptxwcet.ir.kernel import Kernel, Parameter, Space

# More values than any type has: no operation but a sum or a difference is known of an address.
_ADDRESSES = 1 << 65
_SERIAL = -2_000_000
_FLOATS = {"f32": "<f", "f64": "<d"}


class FixedMemory:
    """The bytes that a launch fixes, by state space and variable."""

    def __init__(self, kernel: Kernel, launch: Launch) -> None:
        private = {p.name for p in kernel.parameters} | {v.name for v in kernel.variables}
        self._spaces: Mapping[Space, Mapping[str, bytes]] = {
            Space.PARAM: _parameter_bytes(kernel.parameters, launch),
            Space.CONST: {n: data for n, data in launch.constants.items() if n not in private},
        }
        self._addresses: dict[str, Symbol] = {}

    def address(self, name: str) -> Known | None:
        """The address of a variable; None if nothing of it is known."""
        if not any(name in variables for variables in self._spaces.values()):
            return None
        symbol = self._addresses.get(name)
        if symbol is None:
            cause = Cause(CauseKind.LAUNCH, f"address of {name}")
            symbol = Symbol(name, _SERIAL, _ADDRESSES, fixed=True, is_own=True)
            symbol.origin = frozenset({cause})
            self._addresses[name] = symbol
        return Known(0, {symbol: 1})

    def word(self, space: Space, name: str, offset: int, kind: IntegerType) -> Known | None:
        """What lies at ``offset`` bytes in a variable; None if it is not known."""
        data = self._spaces.get(space, {}).get(name)
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
        content = data
        return Known(
            per_lane(lambda at: _number(content, at, kind) if 0 <= at <= last else 0, offsets)
        )


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
