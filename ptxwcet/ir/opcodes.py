"""The opcode table: one row per base opcode of PTX (ISA 9.x), and the rules that read it.

A row's name is the fixed leading words of a mnemonic (``add``, ``cp.async.bulk``, ``bar.sync``);
what follows are modifiers, in any order, as ptxas has it. The longest matching row counts. A new
instruction is a new row here; the grammar knows no opcodes. Source: the PTX ISA manual, chapter
"Instruction Set"; a second opinion for each row is ptxas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ptxwcet.ir.op_classes import ControlEffect, OpClass, Space

CARRY = "CC.CF"
"""Pseudo register of the carry flag, written by ``.cc`` and read by addc, subc and madc."""


@dataclass(frozen=True, slots=True)
class ByType:
    """Op class by the kind of the first type modifier; ``integer`` counts where none is written."""

    integer: OpClass
    half: OpClass
    single: OpClass
    double: OpClass


@dataclass(frozen=True, slots=True)
class BySpace:
    """Op class by the state space modifier; the generic class counts where none is written."""

    classes: Mapping[Space, OpClass]


ClassRule = OpClass | ByType | BySpace


@dataclass(frozen=True, slots=True)
class Opcode:
    """A row: the name, how to class it, and effects.

    How many operands it has and which are written say its forms (``permitted_rows.py``). Where none
    judge it, ``operands`` is the least and largest number that ptxas takes, and ``destinations``
    how many leading ones are written. A destination that is an address is none: memory is no
    register. ``accumulates``: the destination is read as well. ``reads_carry``: it reads the carry
    flag. ``special_sources``: a special register may be a source. ``discards``: ``_`` may be the
    whole result.
    """

    name: str
    rule: ClassRule
    control: ControlEffect = ControlEffect.NONE
    operands: tuple[int, int] | None = None
    destinations: int = 1
    accumulates: bool = False
    reads_carry: bool = False
    special_sources: bool = False
    discards: bool = False

    def op_class(self, modifiers: Sequence[str]) -> OpClass:
        """The timing class for these modifiers. Cost: linear in their number."""
        rule = self.rule
        if isinstance(rule, OpClass):
            return rule
        if isinstance(rule, BySpace):
            return rule.classes[state_space(modifiers)]
        match type_kind(modifiers):
            case "half":
                return rule.half
            case "single":
                return rule.single
            case "double":
                return rule.double
            case _:
                return rule.integer

    def space(self, modifiers: Sequence[str]) -> Space:
        """The state space that it accesses, ``Space.NONE`` for opcodes that access no memory."""
        return state_space(modifiers) if self.name in _MEMORY_OPCODES else Space.NONE


_SPACES: Mapping[str, Space] = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "shared::cta": Space.SHARED,
    "shared::cluster": Space.SHARED,
    "local": Space.LOCAL,
    "param": Space.PARAM,
    "param::entry": Space.PARAM,
    "param::func": Space.PARAM,
    "const": Space.CONST,
}

_TYPE_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("f16", "f16x2", "bf16", "bf16x2"), "half"),
    **dict.fromkeys(("f32", "f32x2", "tf32"), "single"),
    "f64": "double",
}

_TYPE = re.compile(r"(?:(?:[sub]|b?f|tf)\d+(?:x\d+)?|pred)\Z")
_NUMERIC_TYPE = re.compile(r"(?:[subf]|bf|tf)(\d+)\Z")
_WIDTHS = frozenset({"1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024"})


def state_space(modifiers: Iterable[str]) -> Space:
    """The first state space among the modifiers, generic if there is none (PTX ISA, ``ld``)."""
    for modifier in modifiers:
        space = _SPACES.get(modifier)
        if space is not None:
            return space
        if modifier.startswith("const["):
            return Space.CONST
    return Space.GENERIC


def type_kind(modifiers: Iterable[str]) -> str:
    """``half``, ``single``, ``double`` or ``integer`` by the first type modifier."""
    for modifier in modifiers:
        if _TYPE.match(modifier):
            return _TYPE_KINDS.get(modifier, "integer")
    return "integer"


def is_type(modifier: str) -> bool:
    """Whether a modifier is a type such as ``u32``, ``f16x2`` or ``pred``."""
    return _TYPE.match(modifier) is not None


def count_types(modifiers: Iterable[str]) -> int:
    """How many modifiers are types such as ``u32``, ``f16x2`` or ``pred``."""
    return sum(is_type(modifier) for modifier in modifiers)


def count_spaces(modifiers: Iterable[str]) -> int:
    """How many modifiers are state spaces."""
    return sum(modifier in _SPACES for modifier in modifiers)


def is_impossible_type(modifier: str) -> bool:
    """Whether a modifier is spelled like a type of a width that no PTX type has (``s33``)."""
    found = _NUMERIC_TYPE.match(modifier)
    return found is not None and found.group(1) not in _WIDTHS


def find_opcode(words: Sequence[str]) -> tuple[Opcode | None, int]:
    """The row with the longest name that ``words`` begins with, and how many words that is.

    ``words`` is the mnemonic split at its dots. Returns (None, 1) for an opcode without a row.
    """
    for count in range(min(len(words), _LONGEST), 0, -1):
        row = OPCODES.get(".".join(words[:count]))
        if row is not None:
            return row, count
    return None, 1


# --- class rules ----------------------------------------------------------------------------------

_C = OpClass
_ADD = ByType(_C.INT_ADD, _C.FP16_ARITH, _C.FP32_ADD, _C.FP64_ADD)
_MINMAX = ByType(_C.INT_MINMAX, _C.FP16_ARITH, _C.FP32_MINMAX, _C.FP64_MINMAX)
_MUL = ByType(_C.INT_MUL, _C.FP16_ARITH, _C.FP32_MUL, _C.FP64_MUL)
_MAD = ByType(_C.INT_MAD, _C.FP16_ARITH, _C.FP32_FMA, _C.FP64_FMA)
_DIV = ByType(_C.INT_DIV, _C.FP32_DIV, _C.FP32_DIV, _C.FP64_DIV)
_SFU = ByType(_C.FP32_SFU, _C.FP16_SFU, _C.FP32_SFU, _C.FP64_SFU)
_SIGN = ByType(_C.SIGN, _C.FP16_ARITH, _C.SIGN, _C.SIGN)
_LOAD = BySpace(
    MappingProxyType(
        {
            Space.GENERIC: _C.LOAD_GENERIC,
            Space.GLOBAL: _C.LOAD_GLOBAL,
            Space.SHARED: _C.LOAD_SHARED,
            Space.LOCAL: _C.LOAD_LOCAL,
            Space.PARAM: _C.LOAD_PARAM,
            Space.CONST: _C.LOAD_CONST,
        }
    )
)
_STORE = BySpace(
    MappingProxyType(
        {
            Space.GENERIC: _C.STORE_GENERIC,
            Space.GLOBAL: _C.STORE_GLOBAL,
            Space.SHARED: _C.STORE_SHARED,
            Space.LOCAL: _C.STORE_LOCAL,
            Space.PARAM: _C.STORE_PARAM,
            Space.CONST: _C.STORE_GENERIC,
        }
    )
)
_ATOMIC = BySpace(
    MappingProxyType(
        {
            Space.GENERIC: _C.ATOMIC_GENERIC,
            Space.GLOBAL: _C.ATOMIC_GLOBAL,
            Space.SHARED: _C.ATOMIC_SHARED,
            Space.LOCAL: _C.ATOMIC_GENERIC,
            Space.PARAM: _C.ATOMIC_GENERIC,
            Space.CONST: _C.ATOMIC_GENERIC,
        }
    )
)


# --- rows -----------------------------------------------------------------------------------------


def _rows() -> Iterable[Opcode]:
    yield from _arithmetic_rows()
    yield from _data_rows()
    yield from _memory_rows()
    yield from _asynchronous_rows()
    yield from _warp_rows()
    yield from _matrix_rows()
    yield from _texture_rows()
    yield from _video_rows()
    yield from _control_rows()


def _arithmetic_rows() -> Iterable[Opcode]:
    yield Opcode("add", _ADD)
    yield Opcode("sub", _ADD)
    yield Opcode("addc", _ADD, reads_carry=True)
    yield Opcode("subc", _ADD, reads_carry=True)
    yield Opcode("mul", _MUL)
    yield Opcode("mad", _MAD)
    yield Opcode("madc", _MAD, reads_carry=True)
    yield Opcode("fma", _MAD)
    yield Opcode("mul24", _C.INT_MUL24)
    yield Opcode("mad24", _C.INT_MUL24)
    yield Opcode("div", _DIV)
    yield Opcode("rem", _C.INT_DIV)
    yield Opcode("min", _MINMAX)
    yield Opcode("max", _MINMAX)
    yield Opcode("sad", _C.SIGN)
    yield Opcode("abs", _SIGN)
    yield Opcode("neg", _SIGN)
    yield Opcode("copysign", _C.SIGN)
    yield Opcode("dp4a", _C.INT_DOT)
    yield Opcode("dp2a", _C.INT_DOT)
    for name in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"):
        yield Opcode(name, _SFU)
    yield Opcode("testp", _C.COMPARE)
    yield Opcode("set", _C.COMPARE)
    yield Opcode("setp", _C.COMPARE, discards=True)
    for name in ("and", "or", "xor"):
        yield Opcode(name, _C.LOGIC)
    yield Opcode("not", _C.LOGIC)
    yield Opcode("cnot", _C.LOGIC)
    yield Opcode("lop3", _C.LOGIC, discards=True)
    yield Opcode("shl", _C.SHIFT)
    yield Opcode("shr", _C.SHIFT)
    yield Opcode("shf", _C.SHIFT)
    for name in ("popc", "clz", "bfind", "brev", "fns", "bfe", "bfi", "szext", "bmsk", "prmt"):
        yield Opcode(name, _C.BITFIELD)


def _data_rows() -> Iterable[Opcode]:
    yield Opcode("mov", _C.MOVE, operands=(2, 2), special_sources=True)
    yield Opcode("cvt", _C.MOVE, operands=(2, 5), special_sources=True)
    yield Opcode("cvt.pack", _C.MOVE)
    yield Opcode("cvta", _C.MOVE)
    yield Opcode("isspacep", _C.MOVE)
    yield Opcode("istypep", _C.MOVE)
    yield Opcode("selp", _C.MOVE)
    yield Opcode("slct", _C.MOVE)
    yield Opcode("mapa", _C.MOVE)
    yield Opcode("getctarank", _C.MOVE)


def _memory_rows() -> Iterable[Opcode]:
    yield Opcode("ld", _LOAD)
    yield Opcode("ldu", _LOAD)
    yield Opcode("st", _STORE)
    yield Opcode("atom", _ATOMIC, discards=True)
    yield Opcode("red", _ATOMIC)
    yield Opcode("multimem.ld_reduce", _C.MULTIMEM)
    yield Opcode("multimem.st", _C.MULTIMEM)
    yield Opcode("multimem.red", _C.MULTIMEM)
    yield Opcode("prefetch", _C.PREFETCH)
    yield Opcode("prefetchu", _C.PREFETCH)
    yield Opcode("applypriority", _C.PREFETCH)
    yield Opcode("discard", _C.PREFETCH)
    yield Opcode("createpolicy", _C.PREFETCH)
    yield Opcode("membar", _C.FENCE)
    yield Opcode("fence", _C.FENCE)


def _asynchronous_rows() -> Iterable[Opcode]:
    yield Opcode("cp.async", _C.ASYNC_COPY)
    yield Opcode("cp.async.commit_group", _C.ASYNC_COPY)
    yield Opcode("cp.async.wait_group", _C.ASYNC_WAIT)
    yield Opcode("cp.async.wait_all", _C.ASYNC_WAIT)
    yield Opcode("cp.async.mbarrier.arrive", _C.MBARRIER)
    yield Opcode("cp.async.bulk", _C.ASYNC_BULK)
    yield Opcode("cp.async.bulk.commit_group", _C.ASYNC_BULK)
    yield Opcode("cp.async.bulk.wait_group", _C.ASYNC_WAIT)
    yield Opcode("cp.reduce.async.bulk", _C.ASYNC_BULK)
    yield Opcode("multimem.cp.async.bulk", _C.ASYNC_BULK)
    yield Opcode("multimem.cp.reduce.async.bulk", _C.ASYNC_BULK)
    yield Opcode("st.async", _C.ASYNC_BULK)
    yield Opcode("st.bulk", _C.ASYNC_BULK)
    yield Opcode("red.async", _C.ASYNC_BULK)
    yield Opcode("tensormap.replace", _C.ASYNC_BULK)
    yield Opcode("tensormap.cp_fenceproxy", _C.ASYNC_BULK)
    yield Opcode("mbarrier.init", _C.MBARRIER)
    yield Opcode("mbarrier.inval", _C.MBARRIER)
    yield Opcode("mbarrier.expect_tx", _C.MBARRIER)
    yield Opcode("mbarrier.complete_tx", _C.MBARRIER)
    yield Opcode("mbarrier.arrive", _C.MBARRIER, discards=True)
    yield Opcode("mbarrier.arrive_drop", _C.MBARRIER, discards=True)
    yield Opcode("mbarrier.pending_count", _C.MBARRIER)
    yield Opcode("mbarrier.test_wait", _C.MBARRIER_WAIT)
    yield Opcode("mbarrier.try_wait", _C.MBARRIER_WAIT)
    yield Opcode("clusterlaunchcontrol.try_cancel", _C.ASYNC_BULK)
    yield Opcode("clusterlaunchcontrol.query_cancel", _C.MOVE)


def _warp_rows() -> Iterable[Opcode]:
    yield Opcode("shfl", _C.SHUFFLE)
    yield Opcode("vote", _C.VOTE)
    yield Opcode("match", _C.VOTE, discards=True)
    yield Opcode("activemask", _C.VOTE)
    yield Opcode("redux", _C.VOTE)
    yield Opcode("elect", _C.VOTE)
    yield Opcode("bar.warp.sync", _C.VOTE)


def _matrix_rows() -> Iterable[Opcode]:
    yield Opcode("mma", _C.MMA)
    yield Opcode("wmma.mma", _C.MMA)
    yield Opcode("wmma.load", _C.MATRIX_MOVE)
    yield Opcode("wmma.store", _C.MATRIX_MOVE)
    yield Opcode("ldmatrix", _C.MATRIX_MOVE)
    yield Opcode("stmatrix", _C.MATRIX_MOVE)
    yield Opcode("movmatrix", _C.MATRIX_MOVE)
    yield Opcode("wgmma.mma_async", _C.MMA_ASYNC, accumulates=True)
    yield Opcode("wgmma.fence", _C.FENCE)
    yield Opcode("wgmma.commit_group", _C.MMA_ASYNC)
    yield Opcode("wgmma.wait_group", _C.ASYNC_WAIT)
    yield Opcode("tcgen05.alloc", _C.MMA_ASYNC)
    yield Opcode("tcgen05.dealloc", _C.MMA_ASYNC)
    yield Opcode("tcgen05.relinquish_alloc_permit", _C.MMA_ASYNC)
    yield Opcode("tcgen05.ld", _C.MMA_ASYNC)
    yield Opcode("tcgen05.st", _C.MMA_ASYNC)
    yield Opcode("tcgen05.cp", _C.MMA_ASYNC)
    yield Opcode("tcgen05.shift", _C.MMA_ASYNC)
    yield Opcode("tcgen05.mma", _C.MMA_ASYNC)
    yield Opcode("tcgen05.commit", _C.MMA_ASYNC)
    yield Opcode("tcgen05.wait::ld", _C.ASYNC_WAIT)
    yield Opcode("tcgen05.wait::st", _C.ASYNC_WAIT)
    yield Opcode("tcgen05.fence::before_thread_sync", _C.FENCE)
    yield Opcode("tcgen05.fence::after_thread_sync", _C.FENCE)


def _texture_rows() -> Iterable[Opcode]:
    for name in ("tex", "tld4", "txq"):
        yield Opcode(name, _C.TEXTURE)
    for name in ("suld", "sust", "sured", "suq"):
        yield Opcode(name, _C.SURFACE)


def _video_rows() -> Iterable[Opcode]:
    for stem in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset"):
        for count in ("", "2", "4"):
            yield Opcode(stem + count, _C.VIDEO)
    for name in ("vshl", "vshr", "vmad", "vavrg2", "vavrg4"):
        yield Opcode(name, _C.VIDEO)


def _control_rows() -> Iterable[Opcode]:
    effect = ControlEffect
    yield Opcode("bra", _C.BRANCH, effect.BRANCH, operands=(1, 1), destinations=0)
    yield Opcode("brx.idx", _C.BRANCH, effect.INDIRECT_BRANCH, operands=(2, 2), destinations=0)
    yield Opcode("call", _C.CALL, effect.CALL, operands=(1, 4), destinations=0)
    yield Opcode("ret", _C.RETURN, effect.RETURN, operands=(0, 0), destinations=0)
    yield Opcode("exit", _C.RETURN, effect.EXIT, operands=(0, 0), destinations=0)
    yield Opcode("trap", _C.TRAP, effect.TRAP, operands=(0, 0), destinations=0)
    yield Opcode("brkpt", _C.TRAP)
    for family in ("bar", "bar.cta", "barrier", "barrier.cta"):
        yield Opcode(f"{family}.sync", _C.BARRIER, effect.BARRIER)
        yield Opcode(f"{family}.red", _C.BARRIER, effect.BARRIER)
        yield Opcode(f"{family}.arrive", _C.BARRIER, effect.ARRIVE)
    yield Opcode("barrier.cluster.arrive", _C.CLUSTER_BARRIER, effect.ARRIVE)
    yield Opcode("barrier.cluster.wait", _C.CLUSTER_BARRIER, effect.BARRIER)
    yield Opcode("nanosleep", _C.NANOSLEEP)
    yield Opcode("griddepcontrol.wait", _C.CONTROL_OTHER)
    yield Opcode("griddepcontrol.launch_dependents", _C.CONTROL_OTHER)
    yield Opcode("setmaxnreg", _C.CONTROL_OTHER)
    yield Opcode("pmevent", _C.CONTROL_OTHER)
    yield Opcode("alloca", _C.CONTROL_OTHER)
    yield Opcode("stacksave", _C.CONTROL_OTHER)
    yield Opcode("stackrestore", _C.CONTROL_OTHER)


OPCODES: Mapping[str, Opcode] = MappingProxyType({row.name: row for row in _rows()})
"""All rows by name."""

_LONGEST = max(name.count(".") + 1 for name in OPCODES)

_MEMORY_OPCODES = frozenset(
    name
    for name, row in OPCODES.items()
    if isinstance(row.rule, BySpace)
    or name.startswith(("cp.", "multimem.", "mbarrier.", "tensormap.", "ldmatrix", "stmatrix"))
    or name in {"wmma.load", "wmma.store", "st.async", "st.bulk", "red.async"}
    or name in {"prefetch", "prefetchu", "applypriority", "discard"}
) - {
    "cp.async.commit_group",
    "cp.async.wait_group",
    "cp.async.wait_all",
    "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group",
    "mbarrier.pending_count",
}
