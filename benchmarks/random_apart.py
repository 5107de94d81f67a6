"""Random kernels whose warps are walked apart: what one does is known, what another does is open.

Blocks of several warps that branch on their number, on the index of the block, on iterations and on
loads of one address; that wait in sides of branches and in inner loops, some at one barrier while
others wait at another; that come to a branch for the first time in different iterations, and of
which some end early. Sides differ by chains of divisions, so that sections of warps that are paired
wrongly show as a run above the bound. A kernel follows from its seed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from random_apart_words import HEAD, Words

from ptxwcet.flow.launch import Launch

KIND = "apart"
STEPS = 900
_DIVISION = "div.rn.f32 %f1, %f1, %f2; "
_LENGTHS = (1, 2, 12, 25, 40)


class Apart(Words):
    """One kernel as it is written."""

    def text(self) -> str:
        """The kernel in PTX."""
        for _ in range(self.random.choice((1, 2))):
            self.shared.append(self.load("%base"))
        while self.left > 0:
            self.statement(0, waits=True)
        if self.random.random() < 0.5:
            self.emit("bar.sync 0;")
        if self.random.random() < 0.5:  # where the lanes that end early wait
            self.emit("st.global.f32 [%own], %f1;")
        head = HEAD.replace("PREDICATES", str(self.predicates + 1))
        head = head.replace("WORDS", str(self.words + 1))
        return head + "\n".join(self.lines) + "\nEND:\nret;\n}\n"

    # --- statements -------------------------------------------------------------------------------

    def statement(self, depth: int, *, waits: bool) -> None:
        """One statement; only with ``waits`` it may have barriers."""
        self.left -= 1
        rows: list[tuple[Callable[[], None], float]] = [
            (self.work, 2),
            (lambda: self.branch(depth, waits=waits), 2 if depth < 3 else 0),
            (lambda: self.loop(depth, waits=waits), 3 if self.loops_left > 0 else 0),
            (lambda: self.leave(waits=waits), 0.5),
            (lambda: self.emit("bar.sync 0;"), 1.5 * waits),
            (self.turns, 2.5 * waits),
            (lambda: self.shifted(depth), 0.8 * waits),
            (self.sometimes, 2 * waits * (depth > 0)),
            (self.pair, 1.5 * (depth == 0)),
            (self.totals, 1 * (depth == 0)),
        ]
        self.random.choices([row[0] for row in rows], [row[1] for row in rows])[0]()

    def work(self) -> None:
        """Divisions that wait for each other, few or many."""
        self.emit(self.random.choice(_LENGTHS) * _DIVISION)

    def block(self, depth: int, *, waits: bool) -> None:
        known = len(self.shared)
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if self.left > 0:
                self.statement(depth, waits=waits)
        del self.shared[known:]  # not loaded on other ways

    def choice(self, *, waits: bool) -> str:
        """What a branch is on: lanes are not parted where there are barriers, but seldom."""
        kind = self.random.random()
        if kind < (0.02 if waits else 0.4):
            return self.of_lanes()
        if kind < 0.45:
            return self.known()
        return self.mixed() if kind < 0.55 else self.alike(waits=waits)

    def branch(self, depth: int, *, waits: bool) -> None:
        waits = waits and self.random.random() < 0.85
        p, other, end = self.choice(waits=waits), self.label(), self.label()
        self.emit(f"@{self.random.choice(('', '!'))}{p} bra {other};")
        self.block(depth + 1, waits=waits)
        if self.random.random() < 0.6:
            self.emit(f"bra {end}; {other}:")
            self.block(depth + 1, waits=waits)
            self.emit(f"{end}:")
        else:
            self.emit(f"{other}:")

    def turns(self) -> None:
        """Sides that wait as often, and work between different barriers."""
        chooser, end, known = self.random, self.label(), len(self.shared)
        barriers = chooser.choice((1, 2, 2, 3))
        sides = chooser.choice((2, 2, 3))
        for side in range(sides):
            other = self.label()
            if side < sides - 1:
                self.emit(f"@{self.choice(waits=True)} bra {other};")
            place = chooser.randrange(barriers + 1)
            for i in range(barriers + 1):
                if i == place:
                    self.long()
                if i < barriers:
                    self.emit("bar.sync 0;")
            self.emit(f"bra {end}; {other}:")
        del self.shared[known:]
        self.emit(f"{end}:")

    def shifted(self, depth: int) -> None:
        """Some warps wait once more before the statements inside, the others behind them."""
        p, before, behind = self.known(), self.label(), self.label()
        self.emit(f"@{p} bra {before}; bar.sync 0; {before}:")
        self.block(depth + 1, waits=True)
        self.emit(f"@!{p} bra {behind}; bar.sync 0; {behind}:")

    def leave(self, *, waits: bool) -> None:
        """Some warps or lanes leave the loop around, or the kernel."""
        p = self.of_lanes() if self.random.random() < 0.05 else self.choice(waits=waits)
        places = ["bra END", "ret", *4 * [f"bra {name}" for name in self.breaks]]
        self.emit(f"@{p} {self.random.choice(places)};")

    def limit(self) -> str:
        """How often a loop goes round: a number, or one that follows from warp or block."""
        chooser, word = self.random, self.word()
        source = chooser.choice(("", "", "", "%warp", "%cta", "-%cta", "both"))
        first = chooser.choice((2, 3, 4))
        if source == "":
            self.emit(f"mov.u32 {word}, {first};")
        elif source == "-%cta":
            self.emit(f"sub.u32 {word}, {first + 9}, %cta;")
        elif source == "both":
            p, other = self.compare("%warp", 3), self.word()
            self.emit(f"add.u32 {word}, %cta, {first}; sub.u32 {other}, {first + 9}, %cta;")
            self.emit(f"selp.b32 {word}, {word}, {other}, {p};")
        else:
            self.emit(f"add.u32 {word}, {source}, {first};")
        return word

    def loop(self, depth: int, *, waits: bool) -> None:
        """A counted loop; some warps miss the rest of an iteration, or leave it in between."""
        self.loops_left -= 1
        waits = waits and self.random.random() < 0.85
        i, p, top, last, behind = self.word(), self.predicate(), *(self.label() for _ in range(3))
        limit = self.limit()
        self.emit(f"mov.u32 {i}, 0; {top}:")
        known = len(self.shared)
        self.counters.append(i)
        self.breaks.append(behind)
        if self.random.random() < 0.7:
            self.shared.append(self.load("%next"))
        if self.random.random() < 0.3:
            self.leave(waits=waits)
        is_turned = waits and self.random.random() < 0.6
        if is_turned or self.random.random() < 0.35:
            p_miss = self.known() if is_turned else self.choice(waits=waits)
            self.emit(f"@{p_miss} bra {last};")
        if is_turned:
            self.random.choice((self.turns, self.turns, self.sometimes))()
        self.left += not is_turned
        self.block(depth + 1, waits=waits)
        self.emit(f"{last}: add.s64 %next, %next, 4; add.u32 {i}, {i}, 1;")
        self.emit(f"setp.lt.u32 {p}, {i}, {limit}; @{p} bra {top};")
        del self.shared[known:]
        self.counters.pop()
        self.breaks.pop()
        if self.random.random() < 0.4:  # of lanes that end the loop by its own test
            self.work()
        self.emit(f"{behind}:")

    def sometimes(self) -> None:
        """A choice of all warps that has barriers for some of them, and work for some behind it."""
        first, inner, behind = (self.label() for _ in range(3))
        self.emit(f"@{self.alike()} bra {first}; @{self.known()} bra {inner};")
        self.emit(f"bar.sync 0; {inner}: {first}:")
        self.emit(f"@{self.known()} bra {behind};")
        self.long()
        self.emit(f"bar.sync 0; {behind}:")

    def long(self) -> None:
        """Many divisions."""
        self.emit(self.random.choice(_LENGTHS[2:]) * _DIVISION)

    def pair(self) -> None:
        """Two loops with barriers that all warps end alike, or after iterations of their own."""
        alike, limits = self.alike(), [self.limit(), self.limit()]
        for limit in limits:
            i, p, top, behind = self.word(), self.predicate(), self.label(), self.label()
            self.emit(f"mov.u32 {i}, 0; {top}: bar.sync 0; @{alike} bra {behind};")
            self.emit(f"add.u32 {i}, {i}, 1; setp.lt.u32 {p}, {i}, {limit};")
            self.emit(f"@{p} bra {top}; {behind}:")
            self.long()

    def totals(self) -> None:
        """Lanes of limits of their own count what they load, and go round as often as that."""
        chooser, p, q = self.random, self.predicate(), self.predicate()
        limit, found, i, word = (self.word() for _ in range(4))
        top, again, behind = (self.label() for _ in range(3))
        self.emit(f"mov.u32 {limit}, {chooser.choice((2, 5))};")
        for least in sorted(chooser.sample((7, 15, 23, 31, 40), 2)):
            other = self.limit()
            self.emit(f"setp.gt.u32 {p}, %t, {least};")
            self.emit(f"selp.b32 {limit}, {other}, {limit}, {p};")
        self.emit(f"mov.u32 {i}, 0; mov.u32 {found}, 0; {top}:")
        self.emit(f"ld.global.u32 {word}, [%own]; add.s64 %own, %own, 4;")
        self.emit(f"setp.gt.s32 {p}, {word}, 0; @{p} add.u32 {found}, {found}, 1;")
        self.emit(f"add.u32 {i}, {i}, 1; setp.lt.u32 {q}, {i}, {limit}; @{q} bra {top};")
        self.emit(f"mov.u32 {i}, 0; {again}: setp.ge.u32 {q}, {i}, {found};")
        self.emit(f"@{q} bra {behind}; div.rn.f32 %f1, %f1, %f2;")
        self.emit(f"add.u32 {i}, {i}, 1; bra {again}; {behind}:")


def apart_launch(seed: int) -> Launch:
    """Two or three warps, of which the last is not always full; some blocks, which differ."""
    chooser = Random(f"launch {seed}")
    block = (chooser.choice((64, 64, 70, 96)), 1, 1)
    return Launch(block, chooser.choice(((1, 1, 1), (3, 1, 1), (9, 1, 1))))
