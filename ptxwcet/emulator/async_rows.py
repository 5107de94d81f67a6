"""Semantics of asynchronous copies and of the barriers in memory that they complete at."""

from __future__ import annotations

from ptxwcet.emulator import async_copies
from ptxwcet.emulator.rows import Rows

ASYNC_ROWS: Rows = {
    "cp.async": async_copies.copy_async,
    "cp.async.commit_group": async_copies.commit,
    "cp.async.wait_group": async_copies.wait_group,
    "cp.async.wait_all": async_copies.wait_all,
}
"""Rows for asynchronous operations."""
