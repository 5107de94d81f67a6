"""Conditions of random kernels (:mod:`cfg_kernels`), and what is to be known about a kernel.

Registers named ``%k`` and ``%p`` decide control, the others hold data. A condition is of one of
these kinds:

=========  =========================================================================================
const      a flag that earlier code has set
counter    the counter of a loop around
lane       the lane's class: ``tid`` modulo 2 or 4, compared or looked up in a random mask
warpid     the warp's number
param      a parameter without a value: alike in the block
word       a word of constant data (``ld.global.nc``): alike in the block
red        the result of ``bar.red``: alike in the block
vote       the result of ``vote.sync``: alike in the warp
same       a word loaded from one address by all lanes: alike in the warp
data       a word loaded by each lane apart
=========  =========================================================================================
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

KNOWN = ("const", "counter", "lane", "warpid")
OF_BLOCK = ("param", "word", "red")
OF_WARP = ("vote", "same")
OPEN_BITS = 8.0  # about as many choices of two outcomes in one execution of a kernel


@dataclass(frozen=True, slots=True)
class DataLoop:
    """A loop that data ends: after ``most`` passes, which ``counter`` counts, it ends for sure."""

    counter: str
    most: int
    leaves_when_taken: bool


@dataclass(frozen=True, slots=True)
class RandomKernel:
    """A kernel and what is to be known about it.

    ``lanes`` threads show all that a warp can do; ``domains`` are the values worth trying for what
    is open once a block (default 0 and 1). ``features`` name what occurs in it.
    """

    text: str
    lanes: int
    warps: int
    parameters: Mapping[str, int]
    domains: Mapping[str, tuple[int, ...]]
    loop_bounds: Mapping[str, int]
    data_loops: Mapping[str, DataLoop]
    features: frozenset[str]


@dataclass(frozen=True, slots=True)
class Context:
    """Where a statement stands: how often it runs, who runs it together, loops around."""

    depth: int = 0
    times: int = 1
    whole_block: bool = True
    whole_warp: bool = True
    is_open: bool = False
    counters: tuple[str, ...] = ()
    breaks: tuple[str, str] | None = None  # where break and continue go
    break_kinds: tuple[str, ...] = ()

    def under(self, kind: str) -> Context:
        """Inside of a branch whose condition is of a kind."""
        of_block = kind in OF_BLOCK or kind in ("const", "counter")
        return replace(
            self,
            depth=self.depth + 1,
            whole_block=self.whole_block and of_block,
            whole_warp=self.whole_warp and (of_block or kind in OF_WARP or kind == "warpid"),
            is_open=self.is_open or kind not in KNOWN,
        )


@dataclass(slots=True)
class Conditions:
    """A kernel being written, and how its branches are decided."""

    random: random.Random
    lines: list[str] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    domains: dict[str, set[int]] = field(default_factory=dict)
    loop_bounds: dict[str, int] = field(default_factory=dict)
    data_loops: dict[str, DataLoop] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    classes: int = 1
    lanes: int = 1
    bits: float = OPEN_BITS
    statements: int = 14
    numbers: dict[str, int] = field(default_factory=dict)
    known: int = 0
    flag_is_open: bool = False

    def new(self, name: str) -> str:
        self.numbers[name] = self.numbers.get(name, 0) + 1
        return f"%{name}{self.numbers[name]}" if name != "L" else f"L{self.numbers[name]}"

    def mark_touch(self) -> None:
        self.lines.append("TOUCH")

    # --- conditions -------------------------------------------------------------------------------

    def cost(self, kind: str) -> float:
        """Bits of choice of one branch of a kind."""
        if kind in KNOWN:
            return 0.0
        if kind != "data":
            return 1.0
        return math.log2(2.0**self.lanes + 2.0**self.lanes - 2)

    def kind(self, context: Context, kinds: tuple[str, ...] = ()) -> str:
        """A kind of condition that this place allows and the kernel can still afford."""
        wanted = self.random.choice(kinds or self.kinds + ("counter",) * bool(context.counters))
        if wanted == "red" and not context.whole_block:
            wanted = "param"
        cost = self.cost(wanted) * context.times
        if cost > self.bits:
            return "counter" if context.counters else "const"
        self.bits -= cost
        return wanted

    def condition(self, kind: str, context: Context) -> str:
        """Writes a condition of a kind; the guard that holds or not, like ``!%p3``."""
        self.features.add(kind)
        predicate = self.new("p")
        if kind in OF_BLOCK and kind != "red" and context.times > 1:
            self.features.add("correlated")
        getattr(self, f"_{kind}")(predicate, context)
        if kind not in KNOWN and not context.whole_block and self.random.random() < 0.1:
            other, both = self.new("p"), self.new("p")
            known = "lane" if self.classes > 1 else "warpid"
            getattr(self, f"_{known}")(other, context)
            operation = self.random.choice(("and", "or"))
            self.features |= {"both", known}
            self.lines.append(f"{operation}.pred {both}, {predicate}, {other};")
            predicate = both
        return self.random.choice(("", "!")) + predicate

    def compare(self, predicate: str, value: str, limit: int) -> None:
        how = self.random.choice(("lt", "ge", "eq", "ne"))
        self.lines.append(f"setp.{how}.s32 {predicate}, {value}, {limit};")

    def _const(self, predicate: str, context: Context) -> None:
        if self.flag_is_open:
            self.features.add("correlated")
        self.compare(predicate, "%kf", self.random.randint(0, 1))

    def _counter(self, predicate: str, context: Context) -> None:
        self.compare(predicate, self.random.choice(context.counters), self.random.randint(0, 2))

    def _lane(self, predicate: str, context: Context) -> None:
        if self.random.random() < 0.5:
            self.compare(predicate, "%kc", self.random.randint(0, self.classes - 1))
            return
        mask, bit = self.random.randint(1, (1 << self.classes) - 1), self.new("k")
        number = self.new("k")
        self.lines += [
            f"mov.u32 {number}, {mask};",
            f"shr.b32 {bit}, {number}, %kc;",
            f"and.b32 {bit}, {bit}, 1;",
            f"setp.ne.s32 {predicate}, {bit}, 0;",
        ]

    def _warpid(self, predicate: str, context: Context) -> None:
        self.compare(predicate, "%kw", self.random.randint(0, 2))

    def _param(self, predicate: str, context: Context) -> None:
        name = self.random.choice(("n0", "n1"))
        limit = self.random.randint(1, 2)
        values = self.domains.setdefault(f"param {name}", set())
        if values:
            self.features.add("correlated")
        values |= {limit - 1, limit, limit + 1}
        self.compare(predicate, f"%k{name}", limit)

    def _word(self, predicate: str, context: Context) -> None:
        self.loaded("ld.global.nc", "%a0", predicate)

    def _same(self, predicate: str, context: Context) -> None:
        self.loaded("ld.global", "%a0", predicate)

    def _data(self, predicate: str, context: Context) -> None:
        self.loaded("ld.global", "%a1", predicate)

    def loaded(self, load: str, base: str, predicate: str) -> None:
        value = self.new("k")
        offset = 1024 + 4 * self.numbers["k"]
        self.lines.append(f"{load}.u32 {value}, [{base}+{offset}];")
        self.lines.append(f"setp.ne.u32 {predicate}, {value}, 0;")

    def _vote(self, predicate: str, context: Context) -> None:
        data = self.voter()
        self.lines.append(f"vote.sync.any.pred {predicate}, {data}, 0xffffffff;")

    def _red(self, predicate: str, context: Context) -> None:
        data = self.voter()
        self.lines.append(f"bar.red.or.pred {predicate}, 0, {data};")
        self.features |= {"barrier"} | ({"chosen barrier"} if context.is_open else set())
        self.mark_touch()

    def voter(self) -> str:
        data, value = self.new("q"), self.new("v")
        self.lines.append(f"ld.global.u32 {value}, [%a1+{4 * self.random.randint(0, 9)}];")
        self.lines.append(f"setp.ne.u32 {data}, {value}, 0;")
        return data
