"""Executed paths, compressed as they grow: short repeated sequences are counted."""

from __future__ import annotations

from ptxwcet.emulator.launch import PathRun

LONGEST_PERIOD = 12
Item = tuple[int, int]


class PathRecorder:
    """The executed (block, mask) pairs of a warp. Memory: that of the runs."""

    def __init__(self) -> None:
        self._runs: list[tuple[tuple[Item, ...], int]] = []

    def add(self, item: Item) -> None:
        """One more executed block. Cost: constant."""
        runs = self._runs
        runs.append(((item,), 1))
        for period in range(1, LONGEST_PERIOD + 1):
            tail = runs[-period:]
            if len(tail) < period or any(len(b) != 1 or n != 1 for b, n in tail[:1]):
                return
            blocks = tuple(b[0] for b, _ in tail)
            if len(runs) > period and runs[-period - 1][0] == blocks:
                repeats = runs[-period - 1][1] + 1
                del runs[-period - 1 :]
                runs.append((blocks, repeats))
                return
            before = runs[-2 * period : -period]
            if len(before) == period and before == tail:
                del runs[-2 * period :]
                runs.append((blocks, 2))
                return

    def runs(self) -> tuple[PathRun, ...]:
        """What was recorded."""
        return tuple(PathRun(blocks, repeats) for blocks, repeats in self._runs)
