"""Defines op classes, which machine files give timings for, state spaces, and control effects.

An op class groups PTX instructions that any published machine description times alike. The map
(opcode row, type modifiers, state space) -> op class lives in :mod:`ptxwcet.ir.opcodes`; the map
op class -> (unit, initiation, latency) lives in the machine files and is total there.
"""

from __future__ import annotations

from enum import Enum


class OpClass(Enum):
    """The timing class of an instruction; the value is the key used in machine files."""

    INT_ADD = "int_add"  # add, sub, addc, subc on integers (any width), and packed forms
    INT_MINMAX = "int_minmax"  # min, max on integers
    INT_MUL = "int_mul"  # mul lo/hi/wide on integers
    INT_MAD = "int_mad"  # mad, madc on integers
    INT_MUL24 = "int_mul24"  # mul24, mad24
    INT_DIV = "int_div"  # div, rem on integers
    INT_DOT = "int_dot"  # dp4a, dp2a
    FP16_ARITH = "fp16_arith"  # add..fma, min, max, neg, abs on f16, f16x2, bf16, bf16x2
    FP16_SFU = "fp16_sfu"  # ex2, tanh on f16/bf16
    FP32_ADD = "fp32_add"  # add, sub on f32 (f32x2 too)
    FP32_MINMAX = "fp32_minmax"
    FP32_MUL = "fp32_mul"
    FP32_FMA = "fp32_fma"  # mad, fma on f32
    FP32_DIV = "fp32_div"
    FP32_SFU = "fp32_sfu"  # rcp, sqrt, rsqrt, sin, cos, ex2, lg2, tanh on f32
    FP64_ADD = "fp64_add"
    FP64_MINMAX = "fp64_minmax"
    FP64_MUL = "fp64_mul"
    FP64_FMA = "fp64_fma"
    FP64_DIV = "fp64_div"
    FP64_SFU = "fp64_sfu"  # rcp, sqrt, rsqrt on f64
    MOVE = "move"  # mov, cvt, cvta, isspacep, selp, slct, special registers
    COMPARE = "compare"  # setp, set, testp
    LOGIC = "logic"  # and, or, xor, not, cnot, lop3
    SHIFT = "shift"  # shl, shr, shf
    BITFIELD = "bitfield"  # bfe, bfi, bfind, brev, clz, popc, prmt, fns, szext, bmsk
    SIGN = "sign"  # abs, neg, copysign (f32, f64, integer), sad
    VIDEO = "video"  # vadd..vmad, vset and the SIMD video family
    SHUFFLE = "shuffle"  # shfl
    VOTE = "vote"  # vote, match, activemask, redux, elect
    MMA = "mma"  # mma, wmma.mma
    MMA_ASYNC = "mma_async"  # wgmma, tcgen05 operations
    MATRIX_MOVE = "matrix_move"  # ldmatrix, stmatrix, movmatrix, wmma.load/store
    LOAD_PARAM = "load_param"
    LOAD_CONST = "load_const"
    LOAD_SHARED = "load_shared"
    LOAD_GLOBAL = "load_global"
    LOAD_LOCAL = "load_local"
    LOAD_GENERIC = "load_generic"
    STORE_PARAM = "store_param"
    STORE_SHARED = "store_shared"
    STORE_GLOBAL = "store_global"
    STORE_LOCAL = "store_local"
    STORE_GENERIC = "store_generic"
    ATOMIC_SHARED = "atomic_shared"  # atom, red on shared
    ATOMIC_GLOBAL = "atomic_global"  # atom, red on global
    ATOMIC_GENERIC = "atomic_generic"
    PREFETCH = "prefetch"  # prefetch, prefetchu, discard, applypriority, createpolicy
    FENCE = "fence"  # membar, fence
    ASYNC_COPY = "async_copy"  # cp.async (non bulk), commit_group
    ASYNC_WAIT = "async_wait"  # cp.async.wait_*, cp.async.bulk.wait_*: time depends on copies
    ASYNC_BULK = "async_bulk"  # cp.async.bulk, cp.reduce.async.bulk, tensor maps
    MULTIMEM = "multimem"  # multimem.ld_reduce, st, red: accesses of memory of several devices
    MBARRIER = "mbarrier"  # mbarrier.init, arrive, ...
    MBARRIER_WAIT = "mbarrier_wait"  # mbarrier.test_wait, try_wait
    TEXTURE = "texture"  # tex, tld4, txq
    SURFACE = "surface"  # suld, sust, sured, suq
    BRANCH = "branch"  # bra, brx.idx
    CALL = "call"
    RETURN = "return"  # ret, exit
    TRAP = "trap"  # trap, brkpt
    BARRIER = "barrier"  # bar, barrier
    CLUSTER_BARRIER = "cluster_barrier"  # barrier.cluster
    NANOSLEEP = "nanosleep"
    CONTROL_OTHER = "control_other"  # setmaxnreg, griddepcontrol, pmevent, alloca, stacksave, ...


COUNTING = frozenset({OpClass.MBARRIER, OpClass.MBARRIER_WAIT, OpClass.ASYNC_BULK})
"""The op classes that count at mbarriers, or wait for them (:mod:`ptxwcet.ir.mbarriers`)."""


class Kind(Enum):
    """The pipe that executes a hardware instruction whose op class has several kinds."""

    ORDINARY = "ordinary"  # the pipe for integers, logic and comparisons
    SPECIAL = "special"  # the unit for special functions, which converts as well
    DOUBLE = "double"  # the unit for numbers of 64 bits


class Space(Enum):
    """The PTX state space of a memory access or variable."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    PARAM = "param"
    CONST = "const"
    NONE = "none"


class ControlEffect(Enum):
    """The effect of an instruction on the flow of control of the threads that execute it."""

    NONE = "none"
    BRANCH = "branch"  # bra: one target
    INDIRECT_BRANCH = "indirect_branch"  # brx.idx: a list of targets
    CALL = "call"
    RETURN = "return"  # ret: ends the function (the thread, in an entry)
    EXIT = "exit"  # exit: ends the thread
    TRAP = "trap"  # ends the kernel abnormally
    BARRIER = "barrier"  # waits for other warps of the block (or cluster: CLUSTER_BARRIER)
    ARRIVE = "arrive"  # takes part in a block barrier without waiting (bar.arrive)


class Convergence(Enum):
    """The effect of a machine instruction on the barriers at which lanes of a warp reconverge."""

    NONE = "none"
    SETS = "sets"  # BSSY: registers the lanes that execute it in a barrier
    WAITS = "waits"  # BSYNC: waits for all lanes of a barrier that have neither left it nor ended
    GATHERS = "gathers"  # WARPSYNC: waits for the lanes that it names and that have not ended
    LEAVES = "leaves"  # BREAK: takes the lanes that execute it out of a barrier
    COPIES = "copies"  # BMOV: from a barrier to a register, or back


AT_MEETINGS = (Convergence.WAITS, Convergence.GATHERS)
"""The effects for which lanes of a warp wait for one another."""

AT_BARRIERS = (ControlEffect.BARRIER, ControlEffect.ARRIVE)
"""The effects of instructions that arrive at a barrier, and wait there or not."""
