"""Numbers that are equal for equal parts of warp programs, so that each is computed once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ptxwcet.warp.program import (
    BlockChoice,
    BlockRepeat,
    Choice,
    Node,
    Repeat,
    Unordered,
)


class Structures:
    """Numbers nodes and bodies. The nodes that were numbered must stay alive.

    Cost: a look-up for a node that was seen before, whatever is in it; else linear in the tree.
    """

    def __init__(self) -> None:
        self._of_node: dict[int, int] = {}
        self._of_value: dict[Hashable, int] = {}

    def body(self, body: Sequence[Node]) -> tuple[int, ...]:
        """Equal for equal bodies, and only for these."""
        known = self._of_node
        return tuple([known.get(id(node)) or self._number(node) for node in body])

    def _number(self, node: Node) -> int:
        value: Hashable
        match node:
            case Repeat(count=count, body=inner, least=least):
                # numbers that stand for several (support.affine) are not compared
                counts = (count, least) if type(count) is type(least) is int else id(node)
                value = ("repeat", counts, self.body(inner))
            case BlockRepeat(site, count, inner):
                value = ("together", site, count, self.body(inner))
            case Unordered(first, second):
                value = ("unordered", self.body(first), self.body(second))
            case Choice(alternatives):
                value = ("choice", tuple(self.body(side) for side in alternatives))
            case BlockChoice(site, alternatives):
                value = ("block", site, tuple(self.body(side) for side in alternatives))
            case _:
                value = node
        number = self._of_value.setdefault(value, len(self._of_value) + 1)
        self._of_node[id(node)] = number
        return number
