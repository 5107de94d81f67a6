"""Which lane holds which element of a matrix fragment.

``mma``: as the PTX ISA lays fragments out, in units of 32-bit registers (64-bit ones for f64): with
``e`` elements a register, ``g = lane / 4`` and ``t = lane % 4``, register r of A holds row
``g + 8 (r % (M / 8))`` and columns ``4 e (r / (M / 8)) + t e + i``, one of B rows
``4 e r + t e + i`` and column g, and C row ``g + 8 (r / 2)`` and column ``2 t + r % 2``. ``wmma``:
the ISA leaves the layout open; here element s of the fragment, counted over lanes and registers, is
element s of the matrix, modulo their number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet.emulator.launch import Array

_LANE = np.arange(32)
_GROUP, _PLACE = _LANE // 4, _LANE % 4


@dataclass(frozen=True, slots=True)
class Fragment:
    """Elements of a matrix by lane: ``rows`` and ``columns`` have shape (32, elements a lane)."""

    shape: tuple[int, int]
    rows: Array
    columns: Array

    @property
    def elements(self) -> int:
        """Elements that a lane holds."""
        return int(self.rows.shape[1])

    def gather(self, values: Array) -> Array:
        """Matrices (warps, rows, columns) from lane values (warps, 32, elements)."""
        result = np.zeros((values.shape[0], *self.shape), dtype=values.dtype)
        result[:, self.rows, self.columns] = values
        return result

    def scatter(self, matrix: Array) -> Array:
        """Lane values (warps, 32, elements) from matrices (warps, rows, columns)."""
        taken: Array = matrix[:, self.rows, self.columns]
        return taken


def left_fragment(rows: int, depth: int, packed: int) -> Fragment:
    """A of ``mma``: ``packed`` elements a register."""
    halves = rows // 8
    cells = [
        (_GROUP + 8 * (register % halves), 4 * packed * (register // halves) + _PLACE * packed + i)
        for register in range(halves * depth // (4 * packed))
        for i in range(packed)
    ]
    return _fragment((rows, depth), cells)


def right_fragment(depth: int, columns: int, packed: int) -> Fragment:
    """B of ``mma``, 8 columns."""
    cells = [
        (4 * packed * register + _PLACE * packed + i, _GROUP)
        for register in range(depth // (4 * packed))
        for i in range(packed)
    ]
    return _fragment((depth, columns), cells)


def sum_fragment(rows: int, columns: int) -> Fragment:
    """C and D of ``mma``."""
    cells = [(_GROUP + 8 * (i // 2), 2 * _PLACE + i % 2) for i in range(rows // 4)]
    return _fragment((rows, columns), cells)


def _fragment(shape: tuple[int, int], cells: list[tuple[Array, Array]]) -> Fragment:
    rows = np.stack([row for row, _ in cells], axis=1)
    return Fragment(shape, rows, np.stack([column for _, column in cells], axis=1))


def open_fragment(rows: int, columns: int, elements: int) -> Fragment:
    """A fragment of ``wmma`` with so many elements a lane."""
    number = (np.arange(32 * elements) % (rows * columns)).reshape(32, elements)
    return Fragment((rows, columns), number // columns, number % columns)
