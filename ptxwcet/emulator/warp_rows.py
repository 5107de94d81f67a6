"""Semantics of exchanges within a warp, and of what only hints at when a warp runs."""

from __future__ import annotations

from ptxwcet.emulator import warp_ops
from ptxwcet.emulator.rows import Rows, nothing
from ptxwcet.emulator.warp_reduction import reduce_warp

WARP_ROWS: Rows = {
    "nanosleep": nothing,
    "pmevent": nothing,
    "setmaxnreg": nothing,
    "griddepcontrol.wait": nothing,
    "griddepcontrol.launch_dependents": nothing,
    "bar.warp.sync": warp_ops.synchronise,
    "shfl": warp_ops.shuffle,
    "vote": warp_ops.vote,
    "match": warp_ops.match,
    "activemask": warp_ops.active_mask,
    "redux": reduce_warp,
    "elect": warp_ops.elect,
}
"""Rows for exchanges between the lanes of a warp."""
