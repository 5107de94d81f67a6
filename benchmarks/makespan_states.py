"""How many states of the dynamic program of makespans some schedule of L = C = 1 reaches."""

from __future__ import annotations

from collections.abc import Iterator


def count_reachable(string: str, warps: int) -> int:
    """The states, as how many warps stand at each letter, that are reached from the start."""
    start = (warps, *(0 for _ in string))
    seen, todo = {start}, [start]
    while todo:
        for state in _after(string, todo.pop()):
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return len(seen)


def _after(string: str, state: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    standing = [[i for i, k in enumerate(string) if k == kind and state[i]] for kind in "LC"]
    for first in standing[0] or [None]:
        for second in standing[1] or [None]:
            moved = list(state)
            for place in (first, second):
                if place is not None:
                    moved[place] -= 1
                    moved[place + 1] += 1
            yield tuple(moved)
