"""Semantics of matrix instructions."""

from __future__ import annotations

from ptxwcet.emulator.rows import Rows

MATRIX_ROWS: Rows = {}
"""Rows for matrix instructions."""
