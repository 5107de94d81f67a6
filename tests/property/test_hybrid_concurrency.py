"""Jitter, waves and profiles against definitions by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hybrid_graphs import Event, graph, ipg_of, trace_of
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.methods.hybrid import study
from ptxwcet.methods.hybrid.concurrency import (
    WaveParameters,
    dynamic_estimate,
    observe_blocks,
    observe_concurrency,
    rounds_estimate,
)
from ptxwcet.methods.hybrid.observations import TransitionTimes, observe
from ptxwcet.methods.hybrid.slicing import slice_trace
from ptxwcet.methods.hybrid.study import path_distribution

CFG = graph([[1]])
IPG = ipg_of(CFG)
START, END = 0, 1
WARPS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=8
)


def waves_by_hand(run: list[Event], sm: int) -> tuple[list[list[int]], list[int]]:
    """[B] V-B as told: warp sets as times of begins; and the gaps of the first set."""
    sets: list[list[int]] = [[]]
    for block, at, _, time in run:
        if at != sm:
            continue
        if block == START:
            sets[-1].append(time)
        elif sets[-1]:
            sets.append([])
    return [one for one in sets if one], [b - a for a, b in zip(sets[0], sets[0][1:], strict=False)]


@given(st.lists(WARPS, min_size=1, max_size=3))
@settings(max_examples=drawn(150), deadline=None)
def test_waves_and_jitter(runs: list[list[tuple[int, int, int]]]) -> None:
    rows = []
    for warps in runs:
        events = [
            (block, sm, warp, begin if block == START else begin + length)
            for warp, (sm, begin, length) in enumerate(warps)
            for block in (START, END)
        ]
        rows.append(sorted(events, key=lambda event: event[3]))
    traces = slice_trace(trace_of(IPG.placement, rows), "", IPG)
    found = observe_concurrency(traces)
    sets = [waves_by_hand(run, sm) for run in rows for sm in range(3)]
    gaps = [b - a for waves, _ in sets for one in waves for a, b in pairwise(one)]
    assert found.waves == WaveParameters(
        max(len(waves) for waves, _ in sets),
        max(len(one) for waves, _ in sets for one in waves),
        max(gaps, default=0),
    )
    assert found.first_gap == max((gap for _, first in sets for gap in first), default=0)
    jitter: dict[int, int] = {}
    for run in rows:
        for block, sm, _, time in run:
            if block == START:
                jitter[sm] = max(jitter.get(sm, 0), time - min(event[3] for event in run))
    assert {row.multiprocessor: row.cycles for row in found.release_jitter} == jitter
    assert found.high_water_mark == max(
        max(event[3] for event in run) - min(event[3] for event in run) for run in rows
    )
    longest = observe(IPG, traces).longest_warp
    assert dynamic_estimate(longest, found) >= found.high_water_mark


@given(st.lists(WARPS, min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 5))
@settings(max_examples=drawn(150), deadline=None)
def test_rounds_cover_every_run(
    runs: list[list[tuple[int, int, int]]], warps_per_block: int, places: int
) -> None:
    """Any warps at any times: waits and skews by their definition, and nothing outlasts rounds."""
    rows, waits, skews, blocks = [], [0], [0], 0
    for warps in runs:
        events = [
            (block, 0, warp, begin if block == START else begin + length)
            for warp, (_, begin, length) in enumerate(warps)
            for block in (START, END)
        ]
        rows.append(sorted(events, key=lambda event: event[3]))
        count = -(-len(warps) // warps_per_block)
        own = [warps[b * warps_per_block : (b + 1) * warps_per_block] for b in range(count)]
        begun = sorted(min(begin for _, begin, _ in block) for block in own)
        ended = sorted(max(begin + length for _, begin, length in block) for block in own)
        skews += [max(w[1] for w in block) - min(w[1] for w in block) for block in own]
        free = [begun[0]] * places + ended
        waits += [b - f for b, f in zip(begun, free, strict=False)]
        blocks = max(blocks, count)
    traces = slice_trace(trace_of(IPG.placement, rows), "", IPG)
    delays = observe_blocks(traces, warps_per_block, places)
    assert (delays.wait, delays.skew) == (max(waits), max(skews))
    longest = observe(IPG, traces).longest_warp
    rounds = -(-blocks // places)
    assert rounds_estimate(longest, rounds, delays) >= observe_concurrency(traces).high_water_mark


def times(number: int, seen: dict[int, int]) -> TransitionTimes:
    values = np.array(sorted(seen), np.int64)
    counts = np.array([seen[int(v)] for v in values], np.int64)
    return TransitionTimes(
        number, int(counts.sum()), int(values[-1]), int(values[0]), 0, 1, 0, values, counts
    )


PROFILES = st.lists(
    st.dictionaries(st.integers(0, 9), st.integers(1, 5), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)


@given(PROFILES, st.data())
@settings(max_examples=drawn(100), deadline=None)
def test_convolution_is_exact(seen: list[dict[int, int]], data: st.DataObject) -> None:
    counts = {n: data.draw(st.integers(1, 3)) for n in range(len(seen))}
    rows = [times(number, one) for number, one in enumerate(seen)]
    exact: dict[int, Fraction] = {}
    parts = [seen[n] for n, count in counts.items() for _ in range(count)]
    for choice in product(*parts):
        chance = Fraction(1)
        for part, value in zip(parts, choice, strict=True):
            chance *= Fraction(part[value], sum(part.values()))
        exact[sum(choice)] = exact.get(sum(choice), Fraction(0)) + chance
    found = path_distribution(rows, counts)
    assert found.step == 1
    for value, chance in exact.items():
        assert found.cells[value - found.least] == pytest.approx(float(chance), rel=1e-12)
    assert found.cells.sum() == pytest.approx(1)
    for exceedance in (Fraction(1, 3), Fraction(1, 50), Fraction(1, 10**6)):
        wanted = min(
            value
            for value in range(max(exact) + 1)
            if sum(c for v, c in exact.items() if v > value) <= exceedance and value >= min(exact)
        )
        assert found.quantile(float(exceedance)) == wanted


def test_long_and_coarse_sums_stay_on_the_safe_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few cells times are rounded up, little; transforms agree with direct sums."""
    values = np.random.default_rng(5).integers(1, 90, (2, 40)).tolist()
    rows = [times(n, dict(zip(values[0][n:], values[1][n:], strict=True))) for n in range(4)]
    counts = {0: 1, 1: 13, 2: 100, 3: 1}
    levels = (0.5, 1e-3, 1e-6, 1e-9)

    def quantiles() -> list[int]:
        return [path_distribution(rows, counts).quantile(p) for p in levels]

    exact = quantiles()
    assert path_distribution(rows, counts).step == 1
    monkeypatch.setattr(study, "_DIRECT_CELLS", 1 << 40)
    assert quantiles() == exact
    for cells, most in ((1 << 12, 1.002), (1 << 9, 1.02)):
        monkeypatch.setattr(study, "MOST_CELLS", cells)
        assert path_distribution(rows, counts).step > 1
        for rounded, true in zip(quantiles(), exact, strict=True):
            assert true <= rounded <= true * most
