"""One SM that runs machine code: stalls, scoreboards that count, queues or pipes, barriers.

Written from what is known of the hardware alone (docs/methods/machine-code.md). Times are cycles
from now. A scoreboard goes up when an instruction that holds it is issued, and down when that has
read, or written; a warp waits for zero, or for few left. A stall counts from issue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product


@dataclass(frozen=True)
class Word:
    """An instruction. Of ``kind``: fixed, queued, fence, barrier, copy, commit (of all copies).

    It has read after ``init + reads`` cycles in its unit, and written after ``init + lat``.
    """

    kind: str
    unit: str
    init: int
    lat: int
    stall: int
    reads: int = 0
    on_write: int | None = None
    on_read: int | None = None
    waits: tuple[int, ...] = ()
    left: tuple[int, int] | None = None  # a scoreboard, and how many may still hold it


Program = tuple[Word, ...]


@dataclass(frozen=True)
class Warp:
    """Where a warp is. ``held``: for each holder of a scoreboard, when it lets go, and of which."""

    place: int = 0
    next: int = 0
    held: tuple[tuple[int, int], ...] = ()
    copied: int = 0
    ends: int = 0
    waiting: bool = False
    started: bool = True


Units = tuple[tuple[tuple[str, str, int], int], ...]
State = tuple[tuple[Warp, ...], Units]
Choose = Callable[[list[int]], int]


@dataclass
class Sm:
    """Warps dealt to sub-cores in turn, each with units of its own.

    ``queues`` False: fixed instructions are issued when their pipe is free, and not before. Each
    ``block`` warps are a block, all of them if it is 0; one waits until less than ``slots`` others
    have started and not ended.
    """

    programs: tuple[Program, ...]
    queues: bool = True
    cores: int = 1
    block: int = 0
    slots: int = 1
    known: dict[State, int] = field(default_factory=dict)

    def start(self) -> State:
        """Nothing has been issued, or started."""
        return tuple(Warp(started=False) for _ in self.programs), ()

    def blocks(self) -> list[range]:
        """The warps of each block."""
        size = self.block or len(self.programs)
        return [range(first, first + size) for first in range(0, len(self.programs), size)]

    def core(self, n: int) -> int:
        return n % (self.block or len(self.programs)) % self.cores

    def ended(self, n: int, warp: Warp) -> bool:
        return self.done(n, warp) and warp.ends == 0

    def done(self, n: int, warp: Warp) -> bool:
        return warp.place == len(self.programs[n])

    def place_of(self, n: int, word: Word) -> tuple[str, str, int]:
        """The queue or pipe that an instruction goes to."""
        is_pipe = word.kind == "fixed" and not self.queues
        return "pipe" if is_pipe else "queue", word.unit, self.core(n)

    def eligible_in(self, n: int, warp: Warp, units: Units) -> int | None:
        if warp.waiting or not warp.started or self.done(n, warp):
            return None
        word = self.programs[n][warp.place]
        times = [warp.next, *(cycles for cycles, board in warp.held if board in word.waits)]
        if word.left is not None:
            board, few = word.left
            holders = sorted(cycles for cycles, one in warp.held if one == board)
            times += holders[: max(0, len(holders) - few)]
        place = self.place_of(n, word)
        if place[0] == "pipe":
            times.append(dict(units).get(place, 0))
        return max(times)

    def issued(self, n: int, warp: Warp, units: dict[tuple[str, str, int], int]) -> Warp:
        word = self.programs[n][warp.place]
        place = self.place_of(n, word)
        dispatch = units.get(place, 0)
        units[place] = free = dispatch + word.init
        written, copied, following = free + word.lat, warp.copied, max(1, word.stall)
        ends = max(free, word.stall) if word.kind == "fixed" else written
        if word.kind == "fence":
            following = max(following, written)
        elif word.kind == "copy":
            copied = max(copied, written)
        elif word.kind == "commit":
            written = max(written, copied)
        held = list(warp.held)
        if word.on_write is not None:
            held.append((written, word.on_write))
        if word.on_read is not None:
            held.append((min(written, free + word.reads), word.on_read))
        return Warp(
            warp.place + 1,
            following,
            tuple(sorted(held)),
            copied,
            max(warp.ends, ends),
            word.kind == "barrier",
            started=True,
        )

    def release(self, warps: tuple[Warp, ...]) -> tuple[Warp, ...]:
        """Opens barriers at which all warps of a block wait or have ended; starts blocks."""
        out = list(warps)
        free = self.slots
        for block in self.blocks():
            ended = [self.ended(n, out[n]) for n in block]
            if any(out[n].waiting for n in block):
                opens = all(out[n].waiting or over for n, over in zip(block, ended, strict=True))
                for n in block:
                    out[n] = replace(out[n], waiting=out[n].waiting and not opens)
            free -= out[block[0]].started and not all(ended)
        for block in self.blocks():
            if free and not out[block[0]].started:
                free -= 1
                for n in block:
                    out[n] = replace(out[n], started=True)
        return tuple(out)

    def ahead(self, state: State) -> tuple[State, int, list[list[int]]]:
        """The state when next something can be issued, how far that is, and what then can be.

        Nothing can be any more: the cycles until all has ended, and an empty list.
        """
        passed = 0
        while True:
            warps, units = self.release(state[0]), state[1]
            state = warps, units
            times = [self.eligible_in(n, warp, units) for n, warp in enumerate(warps)]
            known = [time for time in times if time is not None]
            stops = [min(known)] if known else []
            if any(w.waiting or not w.started for w in warps):  # an end may let others go on
                stops += [w.ends for n, w in enumerate(warps) if self.done(n, w) and w.ends > 0]
            if not stops:
                last = max((warp.ends for warp in warps), default=0)
                return later(state, last), passed + last, []
            step = min(stops)
            if step == 0:
                ready = [n for n, time in enumerate(times) if time == 0]
                ports = [[n for n in ready if self.core(n) == c] for c in range(self.cores)]
                return state, passed, [port for port in ports if port]
            state = later(state, step)
            passed += step

    def after(self, state: State, chosen: Iterable[int]) -> State:
        """A cycle later, when these warps have issued an instruction each."""
        warps, units = list(state[0]), dict(state[1])
        for n in chosen:
            warps[n] = self.issued(n, warps[n], units)
        return later((tuple(warps), tuple(sorted(units.items()))), 1)

    def run(self, choose: Choose) -> int:
        """The end of a schedule: of what can be issued, ``choose`` says which."""
        state, total = self.start(), 0
        while True:
            state, passed, ports = self.ahead(state)
            total += passed
            if not ports:
                return total
            state = self.after(state, [choose(port) for port in ports])
            total += 1

    def worst(self) -> int:
        """The latest end of all schedules."""
        return self._worst(self.start())

    def _worst(self, state: State) -> int:
        found = self.known.get(state)
        if found is None:
            later_state, passed, ports = self.ahead(state)
            ends = [1 + self._worst(one) for one in self._following(later_state, ports)]
            found = self.known[state] = passed + max(ends, default=0)
        return found

    def _following(self, state: State, ports: list[list[int]]) -> Iterator[State]:
        if ports:
            for chosen in product(*ports):
                yield self.after(state, chosen)


def later(state: State, cycles: int) -> State:
    """The same, so many cycles later."""
    warps, units = state
    return (
        tuple(
            Warp(
                w.place,
                max(0, w.next - cycles),
                tuple((time - cycles, board) for time, board in w.held if time > cycles),
                max(0, w.copied - cycles),
                max(0, w.ends - cycles),
                w.waiting,
                w.started,
            )
            for w in warps
        ),
        tuple((unit, free - cycles) for unit, free in units if free > cycles),
    )
