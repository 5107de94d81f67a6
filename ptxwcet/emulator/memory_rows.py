"""Semantics of loads, stores, atomics and what only hints at memory."""

from __future__ import annotations

from ptxwcet.emulator.atomics import atomic, reduction
from ptxwcet.emulator.memory_access import load, policy, store
from ptxwcet.emulator.rows import Rows, nothing

MEMORY_ROWS: Rows = {
    "ld": load,
    "ldu": load,
    "st": store,
    "atom": atomic,
    "red": reduction,
    "membar": nothing,
    "fence": nothing,
    "prefetch": nothing,
    "prefetchu": nothing,
    "discard": nothing,
    "applypriority": nothing,
    "createpolicy": policy,
}
"""Rows for memory accesses in program order."""
