"""Semantics of exchanges within a warp."""

from __future__ import annotations

from ptxwcet.emulator import warp_ops
from ptxwcet.emulator.rows import Rows, nothing

WARP_ROWS: Rows = {
    "bar.warp.sync": nothing,
    "shfl": warp_ops.shuffle,
    "vote": warp_ops.vote,
    "match": warp_ops.match,
    "activemask": warp_ops.active_mask,
    "redux": warp_ops.reduce_warp,
}
"""Rows for exchanges between the lanes of a warp."""
