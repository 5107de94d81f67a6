"""Handles the trees of warp programs: the parts of a node, and equality of parts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from operator import is_

from ptxwcet.warp.program import (
    Barrier,
    BlockChoice,
    BlockRepeat,
    Choice,
    Node,
    PartialBarrier,
    Repeat,
    TimedInstruction,
    Unordered,
)

Body = tuple[Node, ...]


def bodies(node: Node) -> tuple[Body, ...]:
    """Returns the parts of a node: the body of a loop, the sides of a branch, alternatives."""
    match node:
        case Repeat(body=inner) | BlockRepeat(body=inner):
            return (inner,)
        case Unordered(first, second):
            return first, second
        case Choice(alternatives) | BlockChoice(alternatives=alternatives):
            return alternatives
        case _:
            return ()


def with_bodies(node: Node, change: Callable[[Body], Body]) -> Node:
    """Returns the node with all its parts changed; the node itself if no part changes."""
    before = bodies(node)
    after = tuple(map(change, before))
    if all(map(is_, before, after)):
        return node
    match node:
        case Repeat() | BlockRepeat():
            return replace(node, body=after[0])
        case Unordered():
            return replace(node, first=after[0], second=after[1])
        case Choice() | BlockChoice():
            return replace(node, alternatives=after)
    return node


def issued(node: Node) -> TimedInstruction | None:
    """Returns the instruction that a node itself issues; None if it issues none."""
    match node:
        case TimedInstruction():
            return node
        case Barrier(instruction=instruction) | PartialBarrier(instruction=instruction):
            return instruction
        case _:
            return None


def entered(body: Sequence[Node]) -> Iterator[Node]:
    """Yields all nodes of a tree except in loops that never run. Cost: linear in the tree."""
    pending = list(reversed(body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, TimedInstruction) and (
            not isinstance(node, Repeat | BlockRepeat) or node.count
        ):
            for inner in reversed(bodies(node)):
                pending += reversed(inner)


def joining(body: Sequence[Node]) -> tuple[TimedInstruction, ...]:
    """Returns the instructions that a warpgroup executes together, each place once."""
    products = (node for node in entered(body) if isinstance(node, TimedInstruction) and node.joins)
    return tuple(dict.fromkeys(products))


class Structures:
    """Numbers for nodes and bodies, equal for equal ones: to compute results only once.

    The numbered nodes must stay alive. Cost: a look-up for a node with a number, whatever its size;
    else linear in the tree.
    """

    def __init__(self) -> None:
        self._of_node: dict[int, int] = {}
        self._of_value: dict[Hashable, int] = {}

    def body(self, body: Sequence[Node]) -> tuple[int, ...]:
        """Returns a key that is equal for equal bodies, and only for these."""
        numbers = self._of_node
        return tuple([numbers.get(id(node)) or self._number(node) for node in body])

    def _number(self, node: Node) -> int:
        value: Hashable = node
        inside = tuple(map(self.body, bodies(node)))
        match node:
            case Repeat(count=count, least=least):
                # Numbers that represent several values (support.affine) are not compared.
                counts = (count, least) if type(count) is type(least) is int else id(node)
                value = ("repeat", counts, inside)
            case BlockRepeat(site, count):
                value = ("together", site, count, inside)
            case Unordered(has_others=others):
                value = (Unordered, others, inside)
            case Choice():
                value = (Choice, inside)
            case BlockChoice(site):
                value = ("block", site, inside)
        number = self._of_value.setdefault(value, len(self._of_value) + 1)
        self._of_node[id(node)] = number
        return number
