"""A warp of machine code whose lanes go on in groups, each group issued alone, in any order.

Written from what is known of the hardware alone: a group is the lanes that are together. It parts
where its lanes go different ways, and its lanes wait at BSYNC, WARPSYNC and barriers. Lanes are
joined only when all that were registered together in a convergence barrier, and have neither left
it nor ended, wait at a BSYNC of it, or all that a WARPSYNC names at one. Which group goes on is the
choice of an ``Order``. What instructions compute is that of :mod:`sass_execution`.

The product is asked for its bound and for the program of the warp, and for nothing else.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from code_programs import Row, machine_with
from sass_execution import _LOW, Lanes, Program, UncoveredError, _Block, _laid_out

from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.facts.stated import NO_FACTS, StatedFacts
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Instruction, Kernel, Module
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.operands import Register, SymbolRef
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.opcodes import ROWS, Pipe
from ptxwcet.sass.translation import translated_program
from ptxwcet.support.source import SourceFile
from ptxwcet.warp.program import (
    BlockChoice,
    BlockRepeat,
    Choice,
    Node,
    Repeat,
    Tally,
    Unordered,
    instruction_of,
)

MOST_ISSUES = 150_000


class DeadlockError(Exception):
    """Lanes wait for one another: the program is wrong."""


# --- orders of groups -----------------------------------------------------------------------------

Order = Callable[[Sequence[int], Sequence[int]], int]
"""Which of the groups goes on: their addresses, oldest first, and those that the last one became
(indices), if they neither wait nor have ended."""


def lowest(addresses: Sequence[int], _: Sequence[int]) -> int:
    """The group at the lowest address."""
    return min(range(len(addresses)), key=addresses.__getitem__)


def highest(addresses: Sequence[int], _: Sequence[int]) -> int:
    """The group at the highest address."""
    return max(range(len(addresses)), key=addresses.__getitem__)


def round_robin(_: Sequence[int], __: Sequence[int]) -> int:
    """An instruction of each group in turn."""
    return 0


def youngest(addresses: Sequence[int], own: Sequence[int]) -> int:
    """The same group until it waits or ends, its last part where it parts; then the youngest."""
    return own[-1] if own else len(addresses) - 1


def oldest(_: Sequence[int], own: Sequence[int]) -> int:
    """The same group until it waits or ends, its first part where it parts; then the oldest."""
    return own[0] if own else 0


def drawn(seed: int) -> Order:
    """Any group, at each instruction."""
    draw = random.Random(seed)
    return lambda addresses, _: draw.randrange(len(addresses))


def drawn_keeping(seed: int) -> Order:
    """The same group until it waits or ends; then any."""
    draw = random.Random(seed)
    return lambda addresses, own: draw.choice(own or range(len(addresses)))


KEEPING: tuple[Order, ...] = (oldest, youngest, drawn_keeping(1))
"""Orders in which a group goes on until it waits or ends, for which times are claimed."""
ANY: tuple[Order, ...] = (lowest, highest, round_robin, drawn(1))


@dataclass
class Listed:
    """An order that takes given choices, then the first; ``open`` has how many there were."""

    choices: Sequence[int]
    keeps: bool = True
    open: list[int] = field(default_factory=list)

    def __call__(self, addresses: Sequence[int], own: Sequence[int]) -> int:
        ways = (own if self.keeps else ()) or range(len(addresses))
        if len(ways) == 1:
            return ways[0]
        place = len(self.open)
        self.open.append(len(ways))
        return ways[self.choices[place] if place < len(self.choices) else 0]


def every_order(run: Callable[[Order], None], most: int, *, keeps: bool) -> bool:
    """Runs with each sequence of choices, at most so many; whether these were all."""
    choices: list[int] = []
    for _ in range(most):
        order = Listed(tuple(choices), keeps)
        run(order)
        choices = [*choices, *[0] * (len(order.open) - len(choices))]
        while choices and choices[-1] + 1 == order.open[len(choices) - 1]:
            choices.pop()
        if not choices:
            return True
        choices[-1] += 1
    return False


# --- the machine ----------------------------------------------------------------------------------


class Warp(_Block):
    """One warp under way; ``issues`` are addresses, and whether some lanes were led elsewhere."""

    def __init__(
        self, program: Program, launch: EmulatedLaunch, order: Order, *, asks_for_ended: bool
    ) -> None:
        memory, bank, _places = _laid_out(program.kernel, launch)
        super().__init__(program, launch, 0, memory, bank, b"")
        assert self.lanes == 32
        self.order, self.asks_for_ended = order, asks_for_ended
        self.issues: list[tuple[int, bool]] = []
        self.came = np.zeros(32, np.int64)
        """For each lane that waits, with which group it came."""

    def run(self) -> None:
        groups, own = [self.alive.copy()], [0]
        while True:
            if not groups:
                groups, own = list(self.released()), []
                if not groups:
                    if self.alive.any():
                        raise DeadlockError
                    return
            place = self.order([int(self.address[each][0]) for each in groups], own)
            group = groups.pop(place)
            address = int(self.address[group][0])
            self.step(address, group)
            going = group & self.alive & ~self.waits
            parts = [going & (self.address == at) for at in np.unique(self.address[going])]
            is_led = bool(going.any()) and int(self.address[going].max()) != address + 16
            is_led |= bool(going.any()) and int(self.address[going].min()) != address + 16
            self.issues.append((address, is_led))
            if len(self.issues) > MOST_ISSUES:
                raise TimeoutError
            self.came[group & self.waits] = len(self.issues)
            groups += parts
            own = list(range(len(groups) - len(parts), len(groups)))
            if (group & ~going).any():
                groups += self.released()

    def released(self) -> Iterator[Lanes]:
        """The groups that need not wait any more."""
        for name in np.unique(self.waits_at[self.waits & self.alive]):
            there = self.alive & self.waits & (self.waits_at == name)
            if name == "BAR":
                if not (there == self.alive).all():
                    continue
                self.voted()
                keys = self.came.astype(np.uint64)
            else:
                while True:  # all that each of them waits for are among them
                    some = self.together(there)
                    missing = self.needed & self.together(self.alive) & ~some
                    if not (there & (missing != 0)).any():
                        break
                    there &= missing == 0
                keys = self.needed & self.together(self.alive)
            for key in np.unique(keys[there]):
                for at in np.unique(self.address[there & (keys == key)]):
                    group = there & (keys == key) & (self.address == at) & self.waits
                    self.waits &= ~group
                    self.waits_at[group] = ""
                    self.address[group] += 16
                    yield group

    def voted(self) -> None:
        """What a barrier that reduces leaves."""
        votes = int((self.votes & self.alive).sum())
        if self.reduction:
            is_true = votes == int(self.alive.sum()) if self.reduction == "AND" else votes > 0
            self.reduced = {"BR": votes, "BP": int(is_true)}

    def do_bra(self, i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        """As with the others; DIV and CONV ask of lanes that have not ended, or else of all."""
        guard = i.guard
        parts = guard.register[1:].split("&") if guard is not None else []
        if lanes.any() and {"DIV", "CONV"} & {*parts}:
            masks = [each for each in operands if not isinstance(each, SymbolRef)]
            mask = self.read(masks[-1]) if masks else self.zero + np.uint64(0xFFFFFFFF)
            if not self.asks_for_ended:
                mask = mask & self.together(self.alive)
            is_parted = bool((mask & ~self.together(lanes))[lanes].any())
            if is_parted != ("DIV" in parts):
                return
            rest = "&".join(part for part in parts if part not in ("DIV", "CONV"))
            for part in filter(None, rest.split("&")):
                if not part.endswith("T"):
                    held = self.truth(Register(part.lstrip("!")))
                    lanes = lanes & (held != part.startswith("!"))
            if lanes.any():
                labels = self.program.labels[int(self.address[lanes][0]) - 16]
                self.address[lanes] = labels[i.targets[0]]
            return
        super().do_bra(i, words, operands, lanes, _)

    def do_bsync(self, i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        """Waits for all that are registered. Whoever is not goes on."""
        registered = lanes & ((self.read(operands[0]) & self.bit) != 0)
        super().do_bsync(i, words, operands, registered, _)

    def do_warpsync(self, i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        """Waits for all that the mask names, at any WARPSYNC of the same mask."""
        if "COLLECTIVE" in words:
            raise UncoveredError("WARPSYNC.COLLECTIVE")
        mask = self.zero + _LOW if "ALL" in words else self.read(operands[-1])
        self.wait(lanes, mask)  # whoever it does not name waits for these, and parts from nobody
        names = [f"{int(each):08x}" for each in self.needed]
        self.waits_at = np.where(lanes, names, self.waits_at)

    def do_bar(self, i: Any, words: Any, operands: Any, lanes: Lanes, _: Any) -> None:
        super().do_bar(i, words, operands, lanes, _)
        self.waits_at[lanes] = "BAR"


# --- time -----------------------------------------------------------------------------------------

_WORD = re.compile(r"/\* ([0-9a-f]{32}) \*/$")
_QUEUED_PIPES = (Pipe.ADDRESS, Pipe.VARIABLE)


@dataclass(frozen=True)
class Timed:
    """How an instruction is issued, of the bits of its line and the row of its class."""

    kind: str
    unit: str
    init: int
    lat: int
    stall: int
    boards: tuple[int, ...]
    waits: tuple[int, ...]
    always_led: bool


def drawn_rows(seed: int) -> dict[OpClass, Row]:
    """A row for each class."""
    draw = random.Random(seed)
    return {
        each: (draw.choice("AB"), draw.choice((1, 2, 4)), draw.choice((0, 3, 9, 30)))
        for each in OpClass
    }


def timed(instruction: Instruction, rows: Mapping[OpClass, Row]) -> Timed:
    """An instruction by the bits of its line."""
    source = instruction.span.source.text
    word = _WORD.search(source[instruction.end : source.index("\n", instruction.end)])
    assert word is not None
    assert instruction.opcode is not None
    bits, name = int(word[1], 16) >> 105, instruction.opcode.name
    boards = tuple(board for board in (bits >> 5 & 7, bits >> 8 & 7) if board != 7)
    waits = tuple(board for board in range(6) if bits >> 11 + board & 1)
    is_queued = ROWS[name].pipe in _QUEUED_PIPES and name != "BMOV"
    kind = "queued" if is_queued or boards or name == "BAR" else "fixed"
    op_class = OpClass.MOVE if name == "ULDC" else instruction.op_class
    if op_class is OpClass.CONTROL_OTHER:
        op_class = OpClass.BRANCH
    elif op_class is OpClass.TRAP and instruction.guard is not None:
        op_class = OpClass.RETURN
    assert op_class is not None
    is_led = name in ("BRX", "BRXU")
    return Timed(kind, *rows[op_class], bits & 15, boards, waits, is_led)


def cycles(issues: Sequence[tuple[int, bool]], words: Mapping[int, Timed], bubble: int) -> int:
    """How long one warp alone takes to issue that, until all has ended."""
    following, end = 0, 0
    free: dict[str, int] = {}
    released = [0] * 6
    behind = [at for at, _ in issues[1:]] + [-1]
    for (address, led), after in zip(issues, behind, strict=True):
        word, is_led = words[address], led and after != address + 16
        start = max(following, *(released[board] for board in word.waits), 0)
        dispatch = max(start, free.get(word.unit, 0))
        stall = word.stall + (bubble if is_led or word.always_led else 0)
        free[word.unit] = dispatch + word.init
        if word.kind == "fixed":
            following = dispatch + max(stall, word.init)
            end = max(end, following)
            continue
        following, done = start + stall, dispatch + word.init + word.lat
        end = max(end, done)
        for board in word.boards:
            released[board] = max(released[board], done)
    return end


# --- what is charged ------------------------------------------------------------------------------


@dataclass
class Charged:
    """A kernel as it is bounded: SAFE of a block, and the most that a weight of issues may be."""

    bound: int
    body: tuple[Node, ...]
    address_of: tuple[int, ...]

    def most(self, weights: Mapping[int, int]) -> int:
        """The largest sum of weights, by address, over the ways of the program."""
        known: dict[int, int] = {}

        def of(body: Sequence[Node]) -> int:
            return sum(map(node_most, body))

        def node_most(node: Node) -> int:
            key = id(node)
            if key not in known:
                known[key] = fresh(node)
            return known[key]

        def fresh(node: Node) -> int:
            match node:
                case Repeat(count, body) | BlockRepeat(_, count, body):
                    return count * of(body)
                case Unordered(first, second):
                    return of(first) + of(second)
                case Choice(alternatives) | BlockChoice(_, alternatives):
                    return max(map(of, alternatives), default=0)
                case Tally():
                    return 0
            return weights.get(self.address_of[instruction_of(node).origin], 0)

        return of(self.body)


@lru_cache(maxsize=4)
def _read(text: str) -> tuple[Module, Module]:
    """A listing as it stands, and as the analyses are told it."""
    module = read_program(SourceFile("k.cubin", text))
    return module, translated_program(module)


@dataclass
class Case:
    """A kernel of a listing, a block of at most one warp, and its numbers (parameters).

    ``given``: the rows of classes, which are drawn else.
    """

    text: str
    name: str
    threads: int
    numbers: tuple[int, ...]
    tables: bytes = b""
    given: Mapping[OpClass, Row] | None = None

    def __post_init__(self) -> None:
        self.module, self.translated = _read(self.text)
        self.kernel: Kernel = next(each for each in self.module.kernels if each.name == self.name)
        self.program = Program(self.kernel, self.module, self.tables)
        drawn = drawn_rows(len(self.kernel.instructions))
        self.rows = drawn if self.given is None else dict(self.given)
        self.machine = machine_with(self.rows)
        self.words = {at: timed(each, self.rows) for at, each in self.program.at.items()}

    def charged(self, facts: StatedFacts | Callable[[Kernel], StatedFacts] = NO_FACTS) -> Charged:
        """The product's answer. Raises PtxwcetError."""
        kernel = next(each for each in self.translated.kernels if each.name == self.name)
        launch = Launch((self.threads, 1, 1), (1, 1, 1), numbers_of(kernel, self.numbers))
        stated = facts if isinstance(facts, StatedFacts) else facts(kernel)
        analysis = analyse_kernel(kernel, launch, self.machine, stated)
        (piece,) = analysis.pieces
        bound = piece.outcomes["safe"]
        assert isinstance(bound, BlockBound)
        (warp,) = piece.analysis.workload.classes
        assert kernel.code is not None
        addresses = tuple(each.address for each in kernel.code.encoded)
        return Charged(bound.cycles, warp.program.body, addresses)

    def run(
        self, data: np.ndarray, order: Order, *, asks_for_ended: bool = False
    ) -> list[tuple[int, bool]]:
        """What the warp issues. Raises DeadlockError."""
        arguments = (*self.numbers, np.zeros(256, np.uint32), data)
        launch = EmulatedLaunch((self.threads, 1, 1), (1, 1, 1), arguments)
        warp = Warp(self.program, launch, order, asks_for_ended=asks_for_ended)
        with np.errstate(all="ignore"):
            warp.run()
        return warp.issues

    def time(self, issues: Sequence[tuple[int, bool]]) -> int:
        """How long it takes to issue that."""
        return cycles(issues, self.words, self.machine.taken_branch_bubble_cycles)


def numbers_of(kernel: Kernel, numbers: Sequence[int]) -> dict[str, int | float]:
    """The first parameters of a kernel."""
    return {each.name: value for each, value in zip(kernel.parameters, numbers, strict=False)}


def exceeded(
    charged: Charged, issues: Sequence[tuple[int, bool]], draw: random.Random
) -> dict[int, tuple[int, int]]:
    """Addresses that are issued more often than charged; -1 has sums of many that are too large."""
    counts = Counter(address for address, _ in issues)
    out: dict[int, tuple[int, int]] = {}
    for address, times in counts.items():
        most = charged.most({address: 1})
        if times > most:
            out[address] = times, most
    for number in range(4):
        weights = {at: draw.randrange(1, 100) if number else 1 for at in counts}
        total, most = sum(weights[at] * times for at, times in counts.items()), 0
        most = charged.most(weights)
        if total > most:
            out[-1] = total, most
    return out
