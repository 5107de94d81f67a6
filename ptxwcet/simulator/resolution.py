"""One concrete path out of a workload that allows several.

A simulator runs single paths. Where the analysis left a decision open (sides of a divergent branch
in either order, an undecided branch, a loop bounded but not counted), a resolution takes one: the
first or largest, or one at random. Any of them is a possible execution of the model's block, so
a bound for all of them holds for each.
"""

from __future__ import annotations

from ptxwcet.simulator.policies import mix
from ptxwcet.warp.program import (
    BlockChoice,
    BlockWorkload,
    Choice,
    Node,
    Repeat,
    Unordered,
    WarpClass,
    WarpProgram,
)
from ptxwcet.warp.segments import has_barrier


def resolve_workload(workload: BlockWorkload, seed: int | None) -> BlockWorkload:
    """The workload with every decision taken; itself if there is none to take.

    With ``seed`` None: sides in the order given, the first alternative, the largest count of every
    loop. Else random ones, one draw a node, the same for all warps of a class and all iterations
    around; what decides about barriers is drawn once for the block. Cost: linear in the program
    trees.
    """
    if all(c.program.is_single_path for c in workload.classes):
        return workload
    classes = []
    for number, warp_class in enumerate(workload.classes):
        body = _Resolver(seed, number).body(warp_class.program.body)
        classes.append(WarpClass(WarpProgram(body), warp_class.warps))
    return BlockWorkload(tuple(classes), workload.scoreboard)


_MASK = (1 << 64) - 1


class _Resolver:
    def __init__(self, seed: int | None, number: int) -> None:
        self._seed = seed
        self._number = number
        self._drawn = 0

    def _below(self, count: int) -> int:
        """A draw from ``count`` possibilities; 0 without a seed."""
        if self._seed is None or count <= 1:
            return 0
        self._drawn += 1
        return mix(self._seed, self._number, self._drawn) % count

    def _agreed(self, key: int, count: int) -> int:
        """A draw that all warps of the block share; 0 without a seed."""
        return 0 if self._seed is None else mix(self._seed, key & _MASK, count) % count

    def body(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        out: list[Node] = []
        for node in nodes:
            match node:
                case Repeat(count=count, body=inner, least=least):
                    choices = count - least + 1
                    shared = has_barrier(inner)
                    fewer = self._agreed(count, choices) if shared else self._below(choices)
                    out.append(Repeat(count - fewer, self.body(inner)))
                case Unordered(first, second):
                    sides = (second, first) if self._below(2) else (first, second)
                    out += [*self.body(sides[0]), *self.body(sides[1])]
                case Choice(alternatives):
                    if alternatives:
                        out += self.body(alternatives[self._below(len(alternatives))])
                case BlockChoice(site, alternatives):
                    out += self.body(alternatives[self._agreed(site, len(alternatives))])
                case _:
                    out.append(node)
        return tuple(out)
