"""Basic blocks of a kernel by definition, and where lanes that parted meet again.

A ``trap``, and a call that was not replaced by a body, ends the launch: nothing follows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.ir.kernel import Instruction, Kernel

ENDINGS = frozenset({"ret", "exit"})
ABORTS = frozenset({"trap", "call"})
BRANCHES = frozenset({"bra", "brx"})


class Graph:
    """Blocks are named by their first instruction; the end of the kernel is one behind the last."""

    def __init__(self, kernel: Kernel) -> None:
        code = kernel.instructions
        self.end = len(code)
        names = [one.mnemonic.split(".")[0] for one in code]
        self.targets = [tuple(kernel.labels[label] for label in one.targets) for one in code]
        closing = BRANCHES | ENDINGS | ABORTS
        self.closes = {i for i, name in enumerate(names) if name in closing}
        led_to = {target for i in self.closes if names[i] in BRANCHES for target in self.targets[i]}
        leaders = sorted(({0} | led_to | {i + 1 for i in self.closes}) - {self.end})
        leaders = leaders if self.end else []  # a kernel without instructions ends at once
        self.leaders = leaders
        self.last = {
            start: end - 1
            for start, end in zip(leaders, [*leaders[1:], self.end][: len(leaders)], strict=True)
        }
        self._leaves = {i for i in self.closes if names[i] in ENDINGS}
        self.aborts = {i for i in self.closes if names[i] in ABORTS}
        self._guarded = [one.guard is not None for one in code]
        self.following = {start: self._successors(start) for start in leaders}
        self.meeting = {start: self._meeting(start) for start in leaders}
        self._waits = {start for start in leaders if self._has_barrier(code, start)}

    def _has_barrier(self, code: Sequence[Instruction], start: int) -> bool:
        block = code[start : self.last[start] + 1]
        return any(one.mnemonic.split(".")[0] in ("bar", "barrier") for one in block)

    def only_ends(self, start: int) -> bool:
        """Whether threads do nothing from a block on but end."""
        return start == self.end or (start in self._leaves and not self._guarded[start])

    def way_to_end(self, start: int, beside: int | None = None) -> list[int] | None:
        """The blocks from one on up to the end, if no branch is on the way; None if one is, or if
        lanes that are ``beside`` come there as well, to do more than to end.
        """
        theirs = set() if beside is None else self._led_to(beside)
        way: list[int] = []
        while start != self.end:
            if start in way or len(self.following[start]) != 1 or start in self._waits:
                return None
            if start in theirs and not self.only_ends(start):
                return None
            way.append(start)
            (start,) = self.following[start]
        return way

    def may_wait(self, start: int) -> bool:
        """Whether some way from a block leads to a barrier."""
        return not self._waits.isdisjoint(self._led_to(start))

    def _led_to(self, start: int) -> set[int]:
        """The blocks that ways from one lead to, itself included."""
        seen, stack = {start}, [start]
        while stack:
            one = stack.pop()
            for following in () if one == self.end else self.following[one]:
                if following not in seen:
                    seen.add(following)
                    stack.append(following)
        return seen

    def _successors(self, start: int) -> tuple[int, ...]:
        last = self.last[start]
        if last not in self.closes:
            return (last + 1,)
        away = (self.end,) if last in self._leaves else self.targets[last]
        away = () if last in self.aborts else away
        return (*away, last + 1) if self._guarded[last] else away

    def _meeting(self, start: int) -> int:
        """The nearest block on all ways from a block to the end: its immediate post-dominator."""
        if len(set(self.following[start])) < 2:
            return next(iter(self.following[start]), self.end)
        behind = [
            other
            for other in (*self.leaders, self.end)
            if other != start and not self._reaches_end(start, other)
        ]
        for one in behind:
            if one != self.end and all(
                not self._reaches_end(one, other) for other in behind if other != one
            ):
                return one
        return self.end

    def _reaches_end(self, start: int, without: int) -> bool:
        """Whether some way from a block to the end avoids another block."""
        if without == self.end:
            return False
        seen, stack = {start}, [start]
        while stack:
            for following in self.following[stack.pop()]:
                if following == self.end:
                    return True
                if following != without and following not in seen:
                    seen.add(following)
                    stack.append(following)
        return False
