"""Traces that do not fit: one diagnostic each, with the line of the event."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hybrid_graphs import Event, graph, ipg_of, trace_of
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal_of, refusals_of

from ptxwcet.methods.hybrid.ipg import Ipg
from ptxwcet.methods.hybrid.slicing import group_starts, slice_trace, stable_order
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.trace.files import read_trace, write_csv

pytestmark = pytest.mark.fast

CFG = graph([[1, 2], [3], [3], [1, 4]])  # 4 is the end
GOOD: list[Event] = [
    (0, 0, 0, 0),
    (0, 0, 7, 1),
    (1, 0, 0, 5),
    (2, 0, 7, 6),
    (3, 0, 0, 9),
    (3, 0, 7, 9),
    (4, 0, 7, 20),
    (4, 0, 0, 21),
]


@pytest.fixture(scope="module")
def ipg() -> Ipg:
    return ipg_of(CFG)


def changed(place: int, **values: int) -> list[Event]:
    names = ("block", "sm", "warp", "cycle")
    row = [values.get(name, old) for name, old in zip(names, GOOD[place], strict=True)]
    return [*GOOD[:place], (row[0], row[1], row[2], row[3]), *GOOD[place + 1 :]]


def test_what_fits_is_sliced(ipg: Ipg) -> None:
    traces = slice_trace(trace_of(ipg.placement, [GOOD, GOOD]), "", ipg)
    assert traces.warp.tolist() == [0, 7, 0, 7]
    assert traces.run.tolist() == [0, 0, 1, 1]
    assert traces.begin.tolist() == [0, 1, 0, 1]
    assert traces.end.tolist() == [21, 20, 21, 20]
    assert traces.duration.tolist() == [5, 4, 12, 5, 3, 11] * 2
    blocks = [ipg.transitions[n] for n in traces.transition[:6]]
    assert [(t.source, t.target) for t in blocks] == [
        (0, 1),
        (1, 3),
        (3, 4),
        (0, 2),
        (2, 3),
        (3, 4),
    ]
    assert traces.warp_rows().tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("events", "code", "row", "words"),
    [
        (changed(2, cycle=-1 + 1), None, 0, ""),  # two events of a warp at one time are allowed
        (changed(4, cycle=4), "PW605", 4, "backwards"),
        (GOOD[1:], "PW606", 1, "does not begin at the entry"),
        (GOOD[:-1], "PW606", 4, "does not reach the end"),
        (changed(4, block=2), "PW608", 7, "from block 2 to end"),
        (changed(2, block=3), "PW608", 2, "from entry to block 3"),
        (changed(4, sm=1), "PW610", 4, "two multiprocessors"),
        ([*GOOD, (0, 0, 7, 30), (4, 0, 7, 31)], "PW610", 8, "goes on after its end"),
        (changed(5, warp=8), "PW606", 5, "does not begin at the entry"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path,
    ipg: Ipg,
    events: list[Event],
    code: str | None,
    row: int,
    words: str,
) -> None:
    path = tmp_path / "t.csv"
    trace = trace_of(ipg.placement, [events])
    write_csv(trace, path)
    if code is None:
        assert slice_trace(read_trace(path), str(path), ipg).warps == 2
        return
    header = path.read_text().split("# run 0\n")[0].count("\n") + 1
    (diagnostic,) = refusals_of(slice_trace, read_trace(path), str(path), ipg)
    assert diagnostic.code == code
    text = diagnostic.render()
    assert words in text
    assert f"t.csv:{header + 1 + row}:1: error" in text
    block, sm, warp, cycle = events[row]
    assert f"{ipg.placement.blocks.index(block)},{sm},{warp},{cycle}" in text.split("\n")[1]
    with pytest.raises(PtxwcetError) as caught:  # a trace made here has no lines
        slice_trace(trace, "t.npz", ipg)
    assert "t.npz: " in str(caught.value)
    assert f"event {row} (run 0" in caught.value.diagnostics[0].render()


def test_the_earliest_event_of_a_kind_is_named(ipg: Ipg) -> None:
    broken = [*changed(2, block=3)[:3], *GOOD[3:]]
    broken[3] = (3, 0, 7, 6)
    assert (
        "event 10 (run 1, multiprocessor 0, warp 0)"
        in refusal_of(slice_trace, trace_of(ipg.placement, [GOOD, broken]), "", ipg).render()
    )


def test_warp_numbers_far_apart(ipg: Ipg) -> None:
    far = [(b, s, w * 10**17, c) for b, s, w, c in GOOD]
    traces = slice_trace(trace_of(ipg.placement, [far] * 30), "", ipg)
    assert traces.warp.tolist() == [0, 7 * 10**17] * 30


@given(st.lists(st.integers(0, 2**40), min_size=1), st.booleans())
def test_sorting_is_stable(keys: list[int], many: bool) -> None:
    column = np.array(keys * (1 if not many else 70_000 // len(keys) + 1), np.int64)
    order = stable_order(column)
    assert (order == np.argsort(column, kind="stable")).all()
    starts = group_starts(column[order])
    assert column[order][starts].tolist() == sorted(set(keys))
