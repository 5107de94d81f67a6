"""Semantics of matrix instructions."""

from __future__ import annotations

from ptxwcet.emulator import matrix_moves, matrix_products, matrix_tiles
from ptxwcet.emulator.rows import Rows

MATRIX_ROWS: Rows = {
    "mma": matrix_products.multiply,
    "ldmatrix": matrix_moves.load_matrices,
    "stmatrix": matrix_moves.store_matrices,
    "movmatrix": matrix_moves.transpose,
    "wmma.load": matrix_tiles.load_fragment,
    "wmma.store": matrix_tiles.store_fragment,
    "wmma.mma": matrix_tiles.multiply_fragments,
}
"""Rows for matrix instructions."""
