"""Semantics of asynchronous copies and of the barriers in memory that they complete at."""

from __future__ import annotations

from ptxwcet.emulator import bulk_copies, mbarriers, memory_ops
from ptxwcet.emulator.rows import Rows, nothing

ASYNC_ROWS: Rows = {
    "cp.async": memory_ops.copy_async,
    "cp.async.commit_group": memory_ops.commit_copies,
    "cp.async.wait_group": memory_ops.wait_for_copies,
    "cp.async.wait_all": memory_ops.wait_for_copies,
    "cp.async.mbarrier.arrive": mbarriers.arrive_after_copies,
    "cp.async.bulk": bulk_copies.copy_bulk,
    "cp.async.bulk.commit_group": nothing,
    "cp.async.bulk.wait_group": nothing,
    "mbarrier.init": mbarriers.initialise,
    "mbarrier.inval": nothing,
    "mbarrier.arrive": mbarriers.arrive,
    "mbarrier.arrive_drop": mbarriers.arrive,
    "mbarrier.expect_tx": mbarriers.expect,
    "mbarrier.complete_tx": mbarriers.complete,
    "mbarrier.pending_count": mbarriers.pending_count,
    "mbarrier.test_wait": mbarriers.test_phase,
    "mbarrier.try_wait": mbarriers.test_phase,
}
"""Rows for asynchronous operations."""
