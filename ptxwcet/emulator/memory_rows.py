"""Semantics of loads, stores, atomics and what only hints at memory."""

from __future__ import annotations

from ptxwcet.emulator import memory_ops
from ptxwcet.emulator.rows import Rows, nothing

MEMORY_ROWS: Rows = {
    "ld": memory_ops.load,
    "ldu": memory_ops.load,
    "st": memory_ops.store,
    "atom": memory_ops.atomic,
    "red": memory_ops.atomic,
    "prefetch": nothing,
    "prefetchu": nothing,
    "applypriority": nothing,
    "discard": nothing,
    "createpolicy": memory_ops.make_policy,
    "nanosleep": nothing,
    "membar": nothing,
    "fence": nothing,
}
"""Rows for memory accesses in program order."""
