"""Semantics of asynchronous copies and of the barriers in memory that they complete at."""

from __future__ import annotations

from ptxwcet.emulator import async_copies, bulk_copies, mbarriers
from ptxwcet.emulator.rows import Rows

ASYNC_ROWS: Rows = {
    "cp.async": async_copies.copy_async,
    "cp.async.commit_group": async_copies.commit,
    "cp.async.wait_group": async_copies.wait_group,
    "cp.async.wait_all": async_copies.wait_all,
    "cp.async.mbarrier.arrive": mbarriers.arrive_after_copies,
    "cp.async.bulk": bulk_copies.bulk_copy,
    "cp.async.bulk.commit_group": async_copies.commit,
    "cp.async.bulk.wait_group": async_copies.wait_group,
    "mbarrier.init": mbarriers.initialise,
    "mbarrier.inval": mbarriers.invalidate,
    "mbarrier.arrive": mbarriers.arrive,
    "mbarrier.arrive_drop": mbarriers.arrive,
    "mbarrier.expect_tx": mbarriers.expect_bytes,
    "mbarrier.complete_tx": mbarriers.complete_bytes,
    "mbarrier.pending_count": mbarriers.pending_count,
    "mbarrier.test_wait": mbarriers.wait,
    "mbarrier.try_wait": mbarriers.wait,
}
"""Rows for asynchronous operations."""
