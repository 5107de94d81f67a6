"""Semantics of matrix instructions."""

from __future__ import annotations

from ptxwcet.emulator import matrix_ops
from ptxwcet.emulator.rows import Rows

MATRIX_ROWS: Rows = {
    "mma": matrix_ops.multiply,
    "ldmatrix": matrix_ops.load_matrices,
    "stmatrix": matrix_ops.store_matrices,
    "movmatrix": matrix_ops.transpose,
    "wmma.load": matrix_ops.load_fragment,
    "wmma.store": matrix_ops.store_fragment,
    "wmma.mma": matrix_ops.multiply_fragments,
}
"""Rows for matrix instructions."""
