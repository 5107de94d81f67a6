"""Exclusive outcomes: a walk for each way to exclude one of every pair; all are alternatives."""

from __future__ import annotations

import pytest
from parsing import parse_kernel
from refusals import refusal_of

from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.launch import Launch, Outcome, PlacedFacts
from ptxwcet.flow.paths import extraction
from ptxwcet.flow.walk.path import Path, PathChoice, Visit
from ptxwcet.flow.walk.walk import Refused

pytestmark = pytest.mark.fast

TEXT = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
A, B, C, D = (1, True), (2, True), (3, False), (4, False)


def walked(
    monkeypatch: pytest.MonkeyPatch,
    pairs: tuple[tuple[Outcome, Outcome], ...],
    contradicted: frozenset[Outcome] = frozenset(),
) -> tuple[Path, list[frozenset[Outcome]]]:
    """The path found, and what each walk excluded; a walk visits what it does not exclude."""
    excluded: list[frozenset[Outcome]] = []

    class StubbedWalk:
        def __init__(self, graph: object, state: object, facts: PlacedFacts) -> None:
            self.never = facts.never

        def spend(self, steps: int, index: int) -> None:
            pass

        def run(self, symbolic: str | None = None) -> Path:
            excluded.append(self.never)
            if self.never & contradicted:
                raise Refused("PW217", 0, "it is taken", "")
            left = [outcome for outcome in (A, B, C, D) if outcome not in self.never]
            return tuple(Visit(*outcome) for outcome in left)

    monkeypatch.setattr(extraction, "Walk", StubbedWalk)
    monkeypatch.setattr(extraction, "_require_used", lambda *_: None)
    kernel = parse_kernel(TEXT)
    flow = ControlFlow.of(kernel)
    facts = PlacedFacts(exclusive=pairs)
    (piece,) = extraction.extract_paths(flow, Launch((32, 1, 1)), facts)
    (warp,) = piece.warps
    return warp.nodes, excluded


def test_one_walk_without_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, excluded = walked(monkeypatch, ())
    assert len(nodes) == 4
    assert excluded == [frozenset()]


def test_two_walks_for_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    (choice,), excluded = walked(monkeypatch, ((A, B),))
    assert isinstance(choice, PathChoice)
    assert [[v.block for v in side if isinstance(v, Visit)] for side in choice.alternatives] == [
        [2, 3, 4],
        [1, 3, 4],
    ]
    assert excluded == [frozenset({A}), frozenset({B})]


def test_every_combination_of_two_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    (choice,), excluded = walked(monkeypatch, ((A, B), (C, D)))
    assert isinstance(choice, PathChoice)
    assert len(choice.alternatives) == 4
    assert set(excluded) == {frozenset({x, y}) for x in (A, B) for y in (C, D)}


def test_equal_paths_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, _ = walked(monkeypatch, ((A, B), (A, B)))
    (choice,) = nodes
    assert isinstance(choice, PathChoice)
    assert len(choice.alternatives) == 3


def test_a_contradicted_walk_has_no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, _ = walked(monkeypatch, ((A, B),), frozenset({A}))
    assert [v.block for v in nodes if isinstance(v, Visit)] == [1, 3, 4]
    assert refusal_of(walked, monkeypatch, ((A, B),), frozenset({A, B})).code == "PW217"
