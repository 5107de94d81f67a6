"""Lists the opcodes of branches, barriers and warp-wide operations, with their forms.

Branches and calls have no forms: they are checked where their labels are.
"""

from __future__ import annotations

from ptxwcet.ir.meanings import Rows
from ptxwcet.ir.op_classes import ControlEffect, OpClass
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.permitted import Form

_C = OpClass
_E = ControlEffect


def rows() -> Rows:
    """Yields all rows of this family."""
    yield Opcode("bra", _C.BRANCH, _E.BRANCH, operands=(1, 1), destinations=0)
    yield Opcode("brx.idx", _C.BRANCH, _E.INDIRECT_BRANCH, operands=(2, 2), destinations=0)
    yield Opcode("call", _C.CALL, _E.CALL, operands=(1, 4), destinations=0)
    yield Opcode("ret", _C.RETURN, _E.RETURN, operands=(0, 0), destinations=0)
    yield Opcode("exit", _C.RETURN, _E.EXIT, operands=(0, 0), destinations=0)
    yield Opcode("trap", _C.TRAP, _E.TRAP, operands=(0, 0), destinations=0)
    yield Opcode("brkpt", _C.TRAP)
    yield Form("")
    yield from _barrier_rows()
    yield from _warp_rows()
    yield from _other_rows()


def _barrier_rows() -> Rows:
    for family in ("bar", "bar.cta", "barrier", "barrier.cta"):
        words = "[aligned]" if family.startswith("barrier") else ""
        yield Opcode(f"{family}.sync", _C.BARRIER, _E.BARRIER)
        yield Form(words, "", "u32#0:15 ?*u32")
        yield Opcode(f"{family}.arrive", _C.BARRIER, _E.ARRIVE)
        yield Form(words, "", "u32#0:15 *u32")
        yield Opcode(f"{family}.red", _C.BARRIER, _E.BARRIER)
        for count in ("", " *u32"):
            barrier = f"u32#0:15{count} !pred"
            yield Form(f"{words} popc", "u32", f"=u32 {barrier}")
            yield Form(f"{words} and|or", "pred", f"=pred {barrier}")
    yield Opcode("barrier.cluster.arrive", _C.CLUSTER_BARRIER, _E.ARRIVE)
    yield Form("[release|relaxed] [aligned]")
    yield Opcode("barrier.cluster.wait", _C.CLUSTER_BARRIER, _E.BARRIER)
    yield Form("[acquire] [aligned]")
    yield Opcode("bar.warp.sync", _C.VOTE)
    yield Form("", "", "u32")


def _warp_rows() -> Rows:
    yield Opcode("shfl", _C.SHUFFLE)
    yield Form("sync up|down|bfly|idx", "b32", "=b32/pred b32 b32 b32 b32")
    yield Form("up|down|bfly|idx", "b32", "=b32/pred b32 b32 b32")
    yield Opcode("vote", _C.VOTE)
    yield Form("all|any|uni", "pred", "=pred !pred")
    yield Form("ballot", "b32", "=b32 !pred")
    yield Form("sync all|any|uni", "pred", "=pred !pred b32")
    yield Form("sync ballot", "b32", "=b32 !pred b32")
    yield Opcode("match", _C.VOTE, discards=True)
    yield Form("sync any", "b32 b64", "=b32 1 b32")
    yield Form("sync all", "b32 b64", "=b32/pred 1 b32")
    yield Opcode("redux", _C.VOTE)
    yield Form("sync add|min|max", "u32 s32", "=1 1 b32")
    yield Form("sync and|or|xor", "b32", "=1 1 b32")
    yield Form("sync min|max [abs] [NaN]", "f32", "=1 1 b32")
    yield Opcode("activemask", _C.VOTE)
    yield Form("", "b32", "=b32")
    yield Opcode("elect", _C.VOTE)
    yield Form("sync", "", "=b32/pred b32")


def _other_rows() -> Rows:
    yield Opcode("nanosleep", _C.NANOSLEEP)
    yield Form("", "u32", "u32")
    for name in ("griddepcontrol.wait", "griddepcontrol.launch_dependents"):
        yield Opcode(name, _C.CONTROL_OTHER)
        yield Form("")
    yield Opcode("setmaxnreg", _C.CONTROL_OTHER)
    yield Form("inc|dec sync aligned", "u32", "$u32#24:256:8")
    yield Opcode("pmevent", _C.CONTROL_OTHER)
    yield Form("", "", "$u32#0:15")
    yield Form("mask", "", "$u32")
    yield Opcode("alloca", _C.CONTROL_OTHER)
    yield Form("", "u32 u64", "=1 1 ?$u32")
    yield Opcode("stacksave", _C.CONTROL_OTHER)
    yield Form("", "u32 u64", "=1")
    yield Opcode("stackrestore", _C.CONTROL_OTHER)
    yield Form("", "u32 u64", "1")
