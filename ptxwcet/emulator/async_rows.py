"""Semantics of asynchronous copies and of the barriers in memory that they complete at."""

from __future__ import annotations

from ptxwcet.emulator import memory_ops
from ptxwcet.emulator.rows import Rows, nothing

ASYNC_ROWS: Rows = {
    "cp.async": memory_ops.copy_async,
    "cp.async.commit_group": nothing,
    "cp.async.wait_group": nothing,
    "cp.async.wait_all": nothing,
}
"""Rows for asynchronous operations."""
