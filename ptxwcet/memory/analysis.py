"""The accesses of a kernel: the largest number of transactions of each, and its cause.

The analysis also determines the accesses that are certain to be in arrays of stated sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.launch import WARP_SIZE, Launch
from ptxwcet.flow.shapes.pattern import Pattern, Value, rows
from ptxwcet.flow.values.arrays import origins_of_pointers
from ptxwcet.ir.kernel import Address, Instruction, Kernel, Register, Space
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.memory.counting import (
    LINE,
    SECTOR,
    Count,
    Mask,
    all_lanes,
    blocks_of,
    lines_of,
    partial_of,
    passes_of,
    serial_of,
    signature,
)
from ptxwcet.memory.instructions import (
    Access,
    Purpose,
    accesses_of,
    leads_to_constants,
    widest_accesses,
)
from ptxwcet.memory.lanes import LaneAnalysis
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

_ONE_WORD = 4


class Transactions(NamedTuple):
    """The most transactions of one execution of an access by a warp, by kind; 0 of absent kinds.

    ``serial`` are lanes of an atomic operation on one word of global memory, served in turn; in
    shared memory each is a pass. ``kept`` counts the sectors in arrays of stated sizes. ``partial``
    counts the sectors that a store or an atomic operation changes and may not fill.
    """

    sectors: int = 0
    lines: int = 0
    passes: int = 0
    words: int = 0
    serial: int = 0
    kept: int = 0
    partial: int = 0

    def with_most(self, other: Transactions) -> Transactions:
        """Returns the larger of both numbers for each kind of transaction."""
        return Transactions(*map(max, self, other))

    def plus(self, other: Transactions) -> Transactions:
        """Returns the sum of both numbers for each kind of transaction."""
        return Transactions(*map(add, self, other))


NO_TRANSACTIONS = Transactions()


@dataclass(frozen=True, slots=True)
class AnalysedAccess:
    """An access of instruction ``index`` in one execution by a warp.

    ``most`` are its most transactions, in any block, visit and warp; ``least`` are those of
    consecutive accesses with as many bytes by a whole warp. ``exact``: each warp takes ``most`` if
    all of its existing lanes take part. ``value`` has the known addresses in the lanes ``there``.
    """

    index: int
    access: Access
    most: Transactions
    least: Transactions
    exact: bool
    value: Value
    there: Mask

    @property
    def reason(self) -> str:
        """How the lanes differ, in words."""
        if self.value is None:
            return "data or open parameters decide"
        return _reason(self.value, self.there, self.access)


@dataclass(frozen=True, slots=True)
class KernelAccesses:
    """All accesses of a kernel for a launch, in the order of its instructions.

    The counts depend on the following parameters: ``pointers`` are assumed to be aligned as
    allocators' pointers are, ``aligned`` have an alignment stated by the launch, ``given`` are
    aggregates whose bytes it states, ``ranged`` have a stated range.
    """

    accesses: tuple[AnalysedAccess, ...]
    pointers: tuple[str, ...]
    aligned: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    ranged: tuple[str, ...] = ()

    def by_instruction(self) -> Mapping[int, Transactions]:
        """Returns the transactions of one execution of each instruction, by all its accesses."""
        transactions: dict[int, Transactions] = {}
        for access in self.accesses:
            others = transactions.get(access.index)
            transactions[access.index] = access.most if others is None else others.plus(access.most)
        return transactions


def analyse_accesses(graph: FlowGraph, launch: Launch) -> KernelAccesses:
    """Returns every access of a kernel, whether or not a run reaches it.

    Cost: some evaluations of each instruction (:class:`~ptxwcet.memory.lanes.LaneAnalysis`), for
    any trip counts. Raises PtxwcetError (PW326) for an array of a stated size without a certain
    access.
    """
    lanes = LaneAnalysis(graph, launch)
    accesses = []
    counted: _Counted = {}
    findings: dict[tuple[object, ...], _Found] = {}
    kept = accesses_kept(graph.kernel, launch)
    require_accessed(graph.kernel, launch, kept)
    leads = any(map(leads_to_constants, graph.kernel.instructions))
    for index, access in lanes.accesses:
        value = lanes.address(access.address) if access.times == 1 else None
        if access.reaches_constants and value is not None and not leads:
            access = replace(access, reaches_constants=False)
        key = *_kind(access), access.times, value
        if key not in findings:
            findings[key] = _analysed(access, value, lanes.there, counted)
        analysed = AnalysedAccess(index, access, *findings[key])
        if access.changes and not lanes.is_whole(index):
            most = analysed.most
            analysed = replace(analysed, most=most._replace(partial=most.sectors))
        if index in kept:
            analysed = replace(analysed, most=analysed.most._replace(kept=analysed.most.sectors))
        accesses.append(analysed)
    names = [parameter.name for parameter in graph.kernel.parameters]
    used = (lanes.pointers, lanes.aligned, lanes.given, lanes.ranged)
    return KernelAccesses(tuple(accesses), *(tuple(n for n in names if n in each) for each in used))


def transactions_at_worst(instruction: Instruction) -> Transactions:
    """Returns the transactions that an instruction needs if no address of its lanes is known."""
    accesses = accesses_of(instruction)
    if not accesses:
        return NO_TRANSACTIONS
    there = np.ones(WARP_SIZE, dtype=np.bool_)
    return reduce(Transactions.plus, (_at_worst(access, there) for access in accesses))


def transactions_of_any() -> Transactions:
    """Returns the most transactions that any instruction of a whole warp needs."""
    there = np.ones(WARP_SIZE, dtype=np.bool_)
    return reduce(Transactions.with_most, (_at_worst(one, there) for one in widest_accesses()))


_Counted = dict[tuple[object, ...], tuple[Transactions, bool]]
_Found = tuple[Transactions, Transactions, bool, Value, Mask]
"""Most, least, whether this is exact, and its basis: as in an analysed access."""


def _analysed(access: Access, value: Value, there: Mask, known: _Counted) -> _Found:
    giving = there
    if access.lanes < WARP_SIZE:
        giving = there & (np.arange(len(there)) % WARP_SIZE < access.lanes)
    least = _least(access, giving)
    if value is None:
        return _at_worst(access, giving), least, False, None, giving
    counts = [_looked_up(access, pattern, giving, known) for pattern in value]
    most = reduce(Transactions.with_most, (counted for counted, _ in counts))
    alike = (counted._replace(partial=most.partial) == most for counted, _ in counts)
    exact = all(is_exact for _, is_exact in counts) and all(alike)
    return most, least, exact, value, giving


def _kind(access: Access) -> tuple[object, ...]:
    bytes_and_lanes = access.access_bytes, access.fetched_bytes, access.lanes
    return access.space, access.purpose, access.reaches_constants, *bytes_and_lanes


def _looked_up(
    access: Access, pattern: Pattern, there: Mask, counted_before: _Counted
) -> tuple[Transactions, bool]:
    """Returns the counts of a pattern, computed once for all patterns with equal counts."""
    size = _ONE_WORD if access.space is Space.SHARED else LINE
    key = *_kind(access), *signature(pattern, size)
    found = counted_before.get(key)
    if found is None:
        found = counted_before[key] = _counted(access, pattern, there)
    return found


def _counted(access: Access, pattern: Pattern, there: Mask) -> tuple[Transactions, bool]:
    size = access.access_bytes
    counts: dict[str, Count] = {}
    space, is_atomic = access.space, access.purpose is Purpose.ATOMIC
    if space in (Space.GLOBAL, Space.GENERIC):
        counts["sectors"] = blocks_of(pattern, there, SECTOR, size)
        counts["lines"] = lines_of(pattern, there, size)
    if space is Space.LOCAL:
        counts |= _of_thread(pattern, there, size)
    if space in (Space.SHARED, Space.GENERIC):
        counts["passes"] = passes_of(pattern, there, size, alone=is_atomic)
    if access.has_words:
        counts["words"] = blocks_of(pattern, there, size, size)  # one address after the other
    if is_atomic and space is not Space.SHARED:
        counts["serial"] = serial_of(pattern, there, size)
    exact = all(count.exact and len(set(count.each)) == 1 for count in counts.values())
    own = Transactions(**{name: one.most for name, one in counts.items()})
    most = own
    if space is Space.GENERIC:
        local = {name: one.most for name, one in _of_thread(pattern, there, size).items()}
        most = most.with_most(Transactions(**local))
    if access.fetched_bytes > SECTOR:
        blocks = most.lines
        if access.purpose is not Purpose.PREFETCH:  # only in global memory
            blocks = blocks_of(pattern, there, min(access.fetched_bytes, LINE), size).most
        fetched = blocks * (access.fetched_bytes // SECTOR)
        most = most.with_most(Transactions(sectors=fetched))
    return most._replace(partial=_partial(access, pattern, there, most)), exact and most == own


def _partial(access: Access, pattern: Pattern, there: Mask, most: Transactions) -> int:
    """Returns how many sectors are changed and not filled if all lanes that exist take part."""
    if not access.changes:
        return 0
    if access.purpose is not Purpose.STORE or access.fetched_bytes > SECTOR:
        return most.sectors
    if access.space is Space.GLOBAL:
        return partial_of(pattern, there, access.access_bytes).most
    if access.space is not Space.LOCAL or not pattern.is_uniform:
        return most.sectors
    # Lanes have adjacent words: some fill a sector, and the existing lanes are the first ones.
    fills = (access.access_bytes % _ONE_WORD, *(rows(there).sum(axis=1) % (SECTOR // _ONE_WORD)))
    return most.sectors if any(fills) else 0


def _of_thread(pattern: Pattern, there: Mask, size: int) -> dict[str, Count]:
    """Counts transactions in local memory, where the words of lanes at one address are adjacent."""
    words = max(1, size // _ONE_WORD)
    if pattern.is_uniform:
        lanes = rows(there).sum(axis=1)
        sectors = tuple(int(-(-lane * _ONE_WORD // SECTOR)) * words for lane in lanes)
        lines = tuple(words for _ in lanes)
        return {
            "sectors": Count(max(sectors), True, sectors),
            "lines": Count(max(lines), True, lines),
        }
    return {"sectors": all_lanes(there, words), "lines": all_lanes(there, words)}


def _at_worst(access: Access, there: Mask) -> Transactions:
    """Counts an access of unknown address: no two lanes share a transaction, and none fills a
    sector.
    """
    found = _apart(access, there)
    return found._replace(partial=found.sectors if access.changes else 0)


def _apart(access: Access, there: Mask) -> Transactions:
    lanes = all_lanes(there).most
    each = lanes * access.times
    blocks = each * max(1, access.access_bytes // SECTOR)
    space = access.space
    if space is Space.LOCAL:
        words = each * max(1, access.access_bytes // _ONE_WORD)
        return Transactions(words * (access.fetched_bytes // SECTOR), words)
    if space is Space.GENERIC:
        blocks = each * max(1, access.access_bytes // _ONE_WORD)  # it may be local memory
    is_global = space in (Space.GLOBAL, Space.GENERIC)
    return Transactions(
        blocks * (access.fetched_bytes // SECTOR) if is_global else 0,
        blocks if is_global else 0,
        each if space in (Space.SHARED, Space.GENERIC) else 0,
        each if access.has_words else 0,
        lanes if access.purpose is Purpose.ATOMIC and space is not Space.SHARED else 0,
    )


def _least(access: Access, there: Mask) -> Transactions:
    """Counts of lanes that access consecutive elements, or one word where those are constants."""
    lanes = all_lanes(there).most
    size = lanes * access.access_bytes * access.times
    space = access.space
    is_outside = space in (Space.GLOBAL, Space.LOCAL, Space.GENERIC)
    is_constant = space in (Space.CONST, Space.PARAM)
    return Transactions(
        -(-size // SECTOR) if is_outside else 0,
        -(-size // LINE) if is_outside else 0,
        -(-size // LINE) if space in (Space.SHARED, Space.GENERIC) else 0,
        1 if is_constant else 0,
        1 if access.purpose is Purpose.ATOMIC and space is not Space.SHARED else 0,
    )


def _reason(value: tuple[Pattern, ...], there: Mask, access: Access) -> str:
    """Returns how the lanes differ, in words."""
    said = dict.fromkeys(_said(pattern, there, access) for pattern in value)
    text = " or ".join(said) if len(said) <= 3 else f"{len(said)} patterns of lanes"
    if access.space in (Space.GLOBAL, Space.GENERIC) and any(
        pattern.align < 5 and not pattern.is_uniform for pattern in value
    ):
        align = min(1 << pattern.align for pattern in value if pattern.align < 5)
        text += f", from a multiple of {max(align, access.access_bytes)} bytes on"
    return text


def _said(pattern: Pattern, there: Mask, access: Access) -> str:
    if isinstance(pattern.offsets, int) or pattern.is_uniform:
        return "one address"
    lanes, mask = rows(np.asarray(pattern.offsets)), rows(there)
    steps = {
        int(step)
        for row, exist in zip(lanes, mask, strict=True)
        for step in np.unique(np.diff(row[exist]))
    }
    if len(steps) != 1:
        return "addresses known lane by lane"
    (step,) = steps
    if step == access.access_bytes:
        return "consecutive"
    return f"stride {step} bytes between lanes"


_PLAIN = re.compile(r"(?:ld|st)\.global(?:\.(?:ca|cg|nc|wb|v[248]|[busf](?:8|16|32|64|128)))+")
"""Loads and stores that a cache may serve any number of times, without other effects: no volatile
or atomic accesses, no hints of early eviction, no larger prefetch."""


def accesses_kept(kernel: Kernel, launch: Launch) -> Mapping[int, frozenset[str]]:
    """Returns the plain loads and stores of global memory, by index, whose address is sure to lead
    from pointers to arrays of stated sizes, and from which. Cost: near linear in the kernel.
    """
    if not launch.sizes:
        return {}
    bases = {
        index: base
        for index, instruction in enumerate(kernel.instructions)
        if (base := _base(instruction)) is not None
    }
    origins = origins_of_pointers(kernel, set(bases.values()), frozenset(launch.sizes))
    return {
        index: origins[base]
        for index, base in bases.items()
        if origins[base] and origins[base] <= launch.sizes.keys()
    }


def require_accessed(kernel: Kernel, launch: Launch, kept: Mapping[int, frozenset[str]]) -> None:
    """Raises PtxwcetError (PW326) for arrays of stated sizes that no such access leads to."""
    reached = frozenset[str]().union(*kept.values())
    problems = [
        Diagnostic(
            "PW326",
            f"no load or store of kernel {kernel.readable} is sure to be of the array "
            f"{launch.name_of(name)}, whose size is stated",
            kernel.span,
            notes=(
                "counted are plain ones of global memory (no atomic, volatile or generic ones, no "
                "hints) whose address is made of that pointer and numbers alone",
            ),
            help=f"leave --param {launch.name_of(name)}=bytes:{size} out",
        )
        for name, size in launch.sizes.items()
        if name not in reached
    ]
    if problems:
        raise PtxwcetError(problems)


def _base(instruction: Instruction) -> str | None:
    """Returns the register to which a plain global access adds a number for its address."""
    is_plain = instruction.op_class in (OpClass.LOAD_GLOBAL, OpClass.STORE_GLOBAL)
    if not is_plain or instruction.space is not Space.GLOBAL:
        return None
    if _PLAIN.fullmatch(instruction.words) is None:
        return None
    bases = [operand.base for operand in instruction.operands if isinstance(operand, Address)]
    return bases[0].name if len(bases) == 1 and isinstance(bases[0], Register) else None
