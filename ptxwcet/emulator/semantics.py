"""Maps opcodes to semantics: a row compiles an instruction to a step over the frame.

A new opcode is a new row of the table of its kind (``*_rows.py``). Control flow and barriers have
no rows: see :mod:`ptxwcet.emulator.nodes`.
"""

from __future__ import annotations

from ptxwcet.emulator import async_copies, matrix_products, mbarriers, warp_ops
from ptxwcet.emulator.atomics import atomic, reduction
from ptxwcet.emulator.convert_rows import CONVERT_ROWS
from ptxwcet.emulator.float_rows import FLOAT_ROWS
from ptxwcet.emulator.integer_rows import INTEGER_ROWS
from ptxwcet.emulator.memory_access import load, policy, store
from ptxwcet.emulator.move_rows import COMPARE_ROWS, MOVE_ROWS
from ptxwcet.emulator.registers import Context, Step
from ptxwcet.emulator.rows import FLOATS, Builder, Rows, nothing, types_of
from ptxwcet.ir.kernel import Instruction

_MEMORY_ROWS: Rows = {
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
"""Memory accesses in program order, and their hints."""

_ASYNC_ROWS: Rows = {
    "cp.async": async_copies.copy_async,
    "cp.async.commit_group": async_copies.commit,
    "cp.async.wait_group": async_copies.wait_group,
    "cp.async.wait_all": async_copies.wait_all,
    "cp.async.mbarrier.arrive": mbarriers.arrive_after_copies,
    "cp.async.bulk": async_copies.bulk_copy,
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
"""Asynchronous copies, and the barriers in memory that they complete at."""

_WARP_ROWS: Rows = {
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
    "redux": warp_ops.reduce_warp,
    "elect": warp_ops.elect,
}
"""Exchanges between the lanes of a warp, and hints that only affect scheduling."""

_MATRIX_ROWS: Rows = {
    "mma": matrix_products.multiply,
    "ldmatrix": matrix_products.load_matrices,
    "stmatrix": matrix_products.store_matrices,
    "movmatrix": matrix_products.transpose,
    "wmma.load": matrix_products.load_fragment,
    "wmma.store": matrix_products.store_fragment,
    "wmma.mma": matrix_products.multiply_fragments,
}


def _by_type(integers: Builder, floats: Builder) -> Builder:
    def build(context: Context, instruction: Instruction) -> Step:
        names = types_of(instruction)
        builder = floats if names and names[-1] in FLOATS else integers
        return builder(context, instruction)

    return build


SEMANTICS: Rows = {
    **FLOAT_ROWS,
    **INTEGER_ROWS,
    **{
        name: _by_type(row, FLOAT_ROWS[name])
        for name, row in INTEGER_ROWS.items()
        if name in FLOAT_ROWS
    },
    **COMPARE_ROWS,
    **MOVE_ROWS,
    **CONVERT_ROWS,
    **_MEMORY_ROWS,
    **_ASYNC_ROWS,
    **_WARP_ROWS,
    **_MATRIX_ROWS,
}
"""All rows."""
