"""Patterns of lanes against all lanes: random terms on random values that patterns allow.

What a pattern says is checked from its definition alone, value by value, and so is what it says of
transactions: no lanes that it allows may need more than are counted.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ptxwcet.flow.shapes.domain import LaneDomain
from ptxwcet.flow.shapes.pattern import KNOWN, Pattern, Value, join, joined, normal
from ptxwcet.ir.terms import Op, Term, const, evaluate, source, term
from ptxwcet.memory.counting import blocks_of, passes_of

WARPS, LANES = 2, 32
THREADS = WARPS * LANES
DOMAIN = LaneDomain(THREADS)
BINARY = (Op.ADD, Op.SUB, Op.MUL, Op.AND, Op.OR, Op.XOR, Op.UDIV, Op.UREM, Op.SHL, Op.LSHR, Op.ASHR)
COMPARING = (Op.EQ, Op.ULT, Op.SLT)


def a_pattern(rng: random.Random, width: int) -> Pattern:
    """As registers have them: thread numbers, strides, rows of a block, numbers, unknown ones."""
    threads = np.arange(THREADS, dtype=np.int64)
    offsets: np.ndarray | int = rng.choice(
        [
            threads,
            threads % rng.choice([4, 8, 16, 32]),
            threads // rng.choice([4, 8, 16, 32]),
            (threads % 16) * rng.choice([1, 4, 48]) + threads // 16 * rng.choice([1, 64, 100]),
            np.array([rng.randrange(64) for _ in threads], dtype=np.int64),
            rng.choice([0, 1, 3, 4, 32, -1, rng.randrange(1 << width)]),
        ]
    )
    scale, moved = rng.choice([1, 1, 2, 4, 12, -1]), rng.choice([0, 0, 4, -4, 100])
    align = rng.choice([KNOWN, KNOWN, 0, 1, 2, 3, 5, 7, 8])
    found = normal(Pattern(offsets * scale + moved, align), width)
    if align == KNOWN or rng.random() < 0.5:
        return found
    lanes = np.asarray(found.offsets)
    low = rng.choice([0, 0, 64, -300, 1000])
    high = low + int(lanes.max() - lanes.min()) + (rng.choice([1, 4, 40]) << align)
    return normal(replace(found, span=(low, high)), width)


def lanes_of(pattern: Pattern, width: int, rng: random.Random) -> list[int]:
    """Values of all threads that a pattern without cuts allows."""
    assert not pattern.cuts
    offsets = np.broadcast_to(np.asarray(pattern.offsets), (THREADS,)).tolist()
    values = []
    for warp in range(WARPS):
        shared = 0
        if pattern.align < KNOWN:
            near = rng.choice([0, 1 << width - 1, rng.randrange(1 << width)])
            shared = (near + rng.randrange(-64, 65)) >> pattern.align << pattern.align
            if pattern.span is not None:
                low, high = pattern.span
                first, last = low - min(offsets), high - max(offsets)
                choices = range(-(-first >> pattern.align), (last >> pattern.align) + 1)
                shared = rng.choice(choices) << pattern.align
        values += [(shared + one) % (1 << width) for one in offsets[warp * 32 : warp * 32 + 32]]
    return values


def allows(pattern: Pattern, values: list[int], width: int) -> bool:
    """Whether a pattern allows these values of all threads, by its definition."""
    size = 1 << width
    offsets = np.broadcast_to(np.asarray(pattern.offsets), (THREADS,)).tolist()
    for warp in range(WARPS):
        lanes = range(warp * 32, warp * 32 + 32)
        shared = [(values[lane] - offsets[lane]) % size for lane in lanes]
        groups = set(shared)
        if len(groups) > 1 << pattern.cuts or len({one % (1 << 16) for one in groups}) > 1:
            return False
        if pattern.align < KNOWN and any(one % (1 << min(pattern.align, 16)) for one in groups):
            return False
        if pattern.align == KNOWN and groups != {0}:
            return False
        if len(groups) > 1 and pattern.pure:
            ordered = sorted(lanes, key=lambda lane: offsets[lane])
            turns = [shared[lane - warp * 32] for lane in ordered]
            if sum(a != b for a, b in pairwise(turns)) != 1:
                return False
    return True


def is_known(value: Value, values: list[int], width: int) -> bool:
    """Whether one of the patterns is true of each warp."""
    if value is None:
        return True
    for warp in range(WARPS):
        own = values[warp * 32 : warp * 32 + 32]
        fits = False
        for pattern in value:
            offsets = np.broadcast_to(np.asarray(pattern.offsets), (THREADS,))
            row = np.tile(offsets[warp * 32 : warp * 32 + 32], WARPS)
            same = Pattern(row, pattern.align, pattern.cuts, pattern.phase, pattern.pure)
            fits |= allows(same, own * WARPS, width)
        if not fits:
            return False
    return True


def a_term(rng: random.Random, width: int, depth: int, sources: list[int]) -> Term:
    """A random term; ``sources`` are the widths of those that it reads, which grow."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.25:
            number = rng.choice([1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 63, 255, 4096, (1 << width) - 1])
            return const(number, width)
        sources.append(width)
        return source(len(sources) - 1, width)
    kind = rng.randrange(10)
    if kind < 5:
        op = rng.choice(BINARY)
        one = a_term(rng, width, depth - 1, sources)
        if op in (Op.SHL, Op.LSHR, Op.ASHR) and rng.random() < 0.8:
            return term(op, width, (one, const(rng.randrange(min(width, 12)), width)))
        return term(op, width, (one, a_term(rng, width, depth - 1, sources)))
    if kind < 8 and width > 16:
        narrow = rng.choice([16, 32] if width > 32 else [16])
        inner = a_term(rng, narrow, depth - 1, sources)
        return term(rng.choice([Op.ZEXT, Op.SEXT]), width, (inner,))
    if kind == 8 and width < 64:
        inner = a_term(rng, 64, depth - 1, sources)
        return term(Op.EXTRACT, width, (inner,), rng.choice([0, 0, 0, 5, 64 - width]))
    test = term(
        rng.choice(COMPARING),
        1,
        (a_term(rng, width, depth - 1, sources), a_term(rng, width, depth - 1, sources)),
    )
    yes, no = (a_term(rng, width, depth - 1, sources) for _ in range(2))
    return term(Op.ITE, width, (test, yes, no))


def brute_blocks(addresses: list[int], size: int) -> int:
    return len({address // size for address in addresses})


def brute_passes(addresses: list[int]) -> int:
    """Of words of four bytes."""
    words = {address // 4 for address in addresses}
    return max(sum(word % 32 == bank for word in words) for bank in range(32))


def attack(seed: int) -> tuple[int, int]:
    """One random term on some values; how many results were known, and how many had cuts."""
    rng = random.Random(seed)
    width = rng.choice([16, 32, 64, 64])
    sources: list[int] = []
    root = a_term(rng, width, rng.randrange(1, 5), sources)
    patterns: list[Value] = []
    for one in sources:
        several = tuple(a_pattern(rng, one) for _ in range(rng.choice([1, 1, 1, 2])))
        patterns.append(joined((), several, one))
    found = DOMAIN.value(root, patterns)
    there = np.ones(THREADS, dtype=np.bool_)
    for _ in range(4):
        values = [
            lanes_of(rng.choice(each or ()), w, rng)
            for each, w in zip(patterns, sources, strict=True)
        ]
        results = [evaluate(root, [each[thread] for each in values]) for thread in range(THREADS)]
        assert is_known(found, results, width), (seed, root)
        if found is None or len(found) > 1 or any(one % 4 for one in results):
            continue
        for size in (32, 128):
            count = blocks_of(found[0], there, size, 4)
            for warp in range(WARPS):
                own = results[warp * 32 : warp * 32 + 32]
                needed = brute_blocks(own, size)
                assert needed <= count.each[warp], (seed, size)
                assert not count.exact or needed == count.each[warp], (seed, size)
        count = passes_of(found[0], there, 4)
        for warp in range(WARPS):
            needed = brute_passes(results[warp * 32 : warp * 32 + 32])
            assert needed <= count.each[warp], seed
            assert not count.exact or needed == count.each[warp], seed
    cuts = 0 if found is None else max((one.cuts for one in found), default=0)
    return int(found is not None), int(cuts > 0)


@pytest.mark.parametrize("part", range(4))
def test_terms_on_all_lanes(part: int) -> None:
    outcomes = [attack(seed) for seed in range(part * 250, part * 250 + 250)]
    assert sum(known for known, _ in outcomes) > 60
    assert sum(cut for _, cut in outcomes) > 2


@pytest.mark.parametrize("seed", range(200))
def test_joins(seed: int) -> None:
    rng = random.Random(seed)
    width = rng.choice([16, 32, 64])
    one, two = a_pattern(rng, width), a_pattern(rng, width)
    both = join(one, two, width)
    kept = joined((one,), (two,), width)
    for pattern in (one, two):
        values = lanes_of(pattern, width, rng)
        assert both is None or allows(both, values, width)
        assert is_known(kept, values, width)


def test_two_cuts_part_lanes_in_four() -> None:
    """A number of 16 bits and one of 32 bits, both read in 64: each goes round where it does."""
    attack(33082)
