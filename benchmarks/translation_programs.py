"""Random PTX programs that leave the same memory however they are compiled, and their launches.

Kinds: ``integers`` (all integer forms in loops and branches: tests/oracle/integer_programs.py), the
kinds of :mod:`random_programs` whose lanes need nobody (loops of all shapes, guards, switches, ways
out), ``exchanges`` (lanes tell each other something where all are there: votes, shuffles, barriers
that combine, memory of the block), and ``floats`` (single and double precision in all roundings;
what is no number in double precision has other bits on each side, and is only compared as such).
Each lane stores into memory of its own, every register at its end, and all registers begin with a
value: what a program leaves follows from its text and data. A program follows from kind and seed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import random_programs
from numpy.typing import NDArray
from random_loops import Loops
from random_statements import Writer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

import integer_programs

from ptxwcet.emulator.launch import EmulatedLaunch

HEAD = ".version 8.3\n.target sm_80\n.address_size 64\n"
ROW = 4096
"""Bytes of a lane: what it stores on its way below 2048, its registers above."""
LANES = 64
_APART = ("plain", "predicates", "loops", "nested", "switches", "leavers")
KINDS = ("integers", *_APART, "exchanges", "floats")
_KEPT = {1: ("p", "u32"), 16: ("h", "u16"), 32: ("r", "u32"), 64: ("d", "u64")}


@dataclass(frozen=True)
class Made:
    """A module of PTX with kernels of one kind, and a launch of each, by its name."""

    text: str
    launches: dict[str, EmulatedLaunch]


@cache
def _forms() -> list[str]:
    with TemporaryDirectory() as folder:
        return integer_programs.taken(integer_programs.integer_statements(), Path(folder))


def made(kind: str, seeds: range) -> Made:
    """The programs of a kind and these seeds."""
    if kind == "integers":
        names = [f"k{seed}" for seed in seeds]
        launch = integer_programs.launch(seeds.start)
        return Made(integer_programs.program(seeds, _forms()), dict.fromkeys(names, launch))
    text, launches = HEAD, {}
    for seed in seeds:
        if kind == "floats":
            body, launch = _Floats(seed).kernel(f"k{seed}"), floats_launch(seed)
        else:
            body, launch = _Lanes(seed, kind).text(f"k{seed}"), lanes_launch(seed, kind)
        text += body
        launches[f"k{seed}"] = launch
    return Made(text, launches)


# --- what ptxas does not translate as PTX says (docs/methods/machine-code.md) ---------------------


def _repeats(line: str) -> bool:
    """Whether a ``lop3`` reads one register twice."""
    operands = line.rstrip(";").split(", ")[1:4]
    return "lop3." in line and len(set(operands)) < 3


def _one_pattern(text: str) -> list[str]:
    """``neg`` or ``copysign``, with the sign that instructions give what is no number.

    PTX leaves open what ``neg`` makes of it, and ptxas keeps its bits in the larger of ``a`` and
    ``a``.
    """
    to = text.split()[1].rstrip(",")
    return [text, f"setp.num.f32 %p9, {to}, {to};", f"selp.f32 {to}, {to}, 0f7FFFFFFF, %p9;"]


def _with_opaque_predicates(lines: Sequence[str]) -> list[str]:
    """Before each loop, predicates that it reads and writes are read from memory.

    What ptxas knows of one that has decided a branch before the loop it takes for what it is in
    all iterations.
    """
    heads = {line[:-1]: number for number, line in enumerate(lines) if line.endswith(":")}
    opaque: dict[int, set[str]] = {}
    for number, line in enumerate(lines):
        label = line.rstrip(";").rsplit(" ", 1)[-1]
        if " bra" in f" {line}" and heads.get(label, number) < number:
            inside = "\n".join(lines[heads[label] : number + 1])
            written = re.findall(r"^(?:@\S+ )?(?:setp|vote)\S* (%p\d+)", inside, re.M)
            read = set(re.findall(r"@!?(%p\d+)|, !?(%p\d+)", inside))
            used = {one or other for one, other in read}
            opaque.setdefault(heads[label], set()).update(used & set(written))
    found = list[str]()
    for number, line in enumerate(lines):
        for name in sorted(opaque.get(number, ())):
            found += [
                f"selp.u32 %w, 1, 0, {name};\nst.volatile.shared.u32 [%apart], %w;",
                f"ld.volatile.shared.u32 %w, [%apart];\nsetp.ne.u32 {name}, %w, 0;",
            ]
        found.append(line)
    return found


# --- integers, lane by lane and all lanes together ------------------------------------------------


class _Own(Writer):
    """Lanes have memory of their own, and tell each other something only where all are there."""

    may_exchange = False

    def address(self) -> str:
        self.offset = (self.offset + 8) % 1024
        if self.random.random() < 0.7:
            return f"[%own+{self.offset}]"
        return f"[%table+{self.offset}]"

    def effect(self) -> None:
        self.offset = (self.offset + 8) % 1024
        place, value = f"[%own+{self.offset}]", self.some(32)
        kind = self.random.randrange(6)
        if kind == 0:
            size = self.random.choice((8, 16, 32))
            self.emit(f"{self.guard()}st.global.u{size} {place}, {value};")
        elif kind == 1:
            self.emit(f"{self.guard()}st.global.u64 {place}, {self.some(64)};")
        elif kind == 2:
            name = self.random.choice(("add", "min", "max", "and", "or", "xor", "exch", "inc"))
            sort = {"min": "s32", "max": "u32", "add": "u32", "inc": "u32"}.get(name, "b32")
            self.emit(f"atom.global.{name}.{sort} {self.target(32)}, {place}, {value};")
        elif kind == 3:
            self.emit(f"atom.global.add.u64 {self.target(64)}, {place}, {self.some(64)};")
        elif kind == 4:
            self.emit(f"{self.guard()}st.shared.u32 [%mine], {value};")
        else:
            self.emit(f"{self.guard()}ld.shared.u32 {self.target_with_value(32)}, [%mine];")

    def odd(self) -> None:
        """As it is, without positions of bits that are not determined, and without literals of
        which ptxas makes something else than PTX says (docs/methods/machine-code.md).
        """
        before = len(self.lines)
        super().odd()
        while "16x2" in self.lines[-1] or _repeats(self.lines[-1]):  # not on all architectures
            del self.lines[before:]
            super().odd()
        text = self.lines[-1]
        operands = text.rstrip(";").split(", ")
        if re.search(r"\bbf[ei]\.", text) and "%" in operands[-2]:
            self.lines[-1:] = [f"and.b32 {operands[-2]}, {operands[-2]}, 255;", text]
        if "bfi." in text:
            operands[-1] = f"{min(int(operands[-1]), 31)}"
            self.lines[-1] = ", ".join(operands) + ";"
        elif re.search(r"\bbfe\.s", text) and "%" not in operands[-2]:
            operands[-2] = str(int(operands[-2]) & 31)
            self.lines[-1] = ", ".join(operands) + ";"

    def lanes(self) -> None:
        if not self.may_exchange:
            self.odd()
            return
        chooser = self.random
        a, out, p = self.some(32), self.target(32), self.predicate()
        kind = chooser.randrange(5)
        if kind == 0:
            for line in (
                "bar.sync 0;",
                f"st.shared.u32 [%mine], {a};",
                "bar.sync 0;",
                f"ld.shared.u32 {out}, [%other];",
                "bar.sync 0;",
            ):
                self.emit(line)
            return
        if kind == 1:
            self.reduction()
            return
        if kind == 2:
            vote = chooser.choice(("all", "any", "uni"))
            self.emit(f"vote.sync.{vote}.pred {self.predicate_target()}, {p}, -1;")
            return
        amount = self.operand(32)
        self.emit(
            chooser.choice(
                (
                    f"vote.sync.ballot.b32 {out}, {p}, -1;",
                    f"shfl.sync.idx.b32 {out}, {a}, {amount}, 31, -1;",
                    f"shfl.sync.bfly.b32 {out}, {a}, {chooser.choice((1, 2, 16))}, 31, -1;",
                    f"shfl.sync.up.b32 {out}, {a}, {chooser.choice((1, 3, 16))}, 0, -1;",
                    f"shfl.sync.down.b32 {out}, {a}, {chooser.choice((1, 3, 16))}, 0x181f, -1;",
                    f"match.any.sync.b32 {out}, {a}, -1;",
                    f"redux.sync.{chooser.choice(('add', 'min', 'max'))}.u32 {out}, {a}, -1;",
                    f"redux.sync.{chooser.choice(('min', 'max'))}.s32 {out}, {a}, -1;",
                    f"redux.sync.{chooser.choice(('and', 'or', 'xor'))}.b32 {out}, {a}, -1;",
                )
            )
        )


class _Lanes(random_programs.Program):
    """A program of :mod:`random_programs` that leaves what it computes, and nothing else."""

    def __init__(self, seed: int, kind: str) -> None:
        super().__init__(seed, "plain" if kind == "exchanges" else kind)
        self.exchanges = kind == "exchanges"
        self.random.seed(f"translation {kind} {seed}")
        self.writer = _Own(self.random)
        self.loops = Loops(self.writer)
        self.weights = {**self.weights, "barrier": 0, "reduce": 0}  # not where some are away
        if self.exchanges:
            self.weights = {"compute": 5, "compare": 2, "lanes": 6, "branch": 2, "loop": 1}

    def statement(self, depth: int) -> None:
        w = self.writer
        assert isinstance(w, _Own)
        w.may_exchange = self.exchanges and depth == 0
        if w.may_exchange and self.random.random() < 0.3:
            self.left -= 1
            w.lanes()
        else:
            super().statement(depth)

    def text(self, name: str) -> str:
        w = self.writer
        for bits in (32, 32, 64, 16):
            w.pool[bits].append(w.leaf(bits))
        w.compare()
        while self.left > 0:
            self.statement(0)
        first, last = list[str](), list[str]()
        declared, place = list[str](), 2048
        for bits, (letter, kind) in _KEPT.items():
            kinds = "pred" if bits == 1 else f"b{bits}"
            declared.append(f".reg .{kinds} %{letter}<{w.count[bits] + 1}>;")
            for number in range(1, w.count[bits] + 1):
                register = f"%{letter}{number}"
                if bits == 1:
                    first.append(f"setp.gt.u32 {register}, %t, {number};")
                    last.append(f"selp.u32 %w, 1, 0, {register};")
                else:
                    first.append(f"mov.{kind} {register}, {number % 7};")
                kept = "%w" if bits == 1 else register
                if place < ROW:
                    last.append(f"st.global.{kind} [%own+{place}], {kept};")
                place += 8
        return "\n".join(
            (
                f".visible .entry {name}(.param .u64 data, .param .u32 n, .param .u64 nn)",
                "{",
                *declared,
                ".reg .b64 %base, %own, %table;\n.reg .b32 %t, %w, %mine, %other, %apart;",
                f".shared .align 4 .b32 words[{2 * LANES}];",
                "ld.param.u64 %base, [data];\nmov.u32 %t, %tid.x;",
                f"mad.wide.u32 %own, %t, {ROW}, %base;",
                f"add.u64 %table, %base, {LANES * ROW};",
                "mov.u32 %w, words;\nmad.lo.u32 %mine, %t, 4, %w;",
                f"st.shared.u32 [%mine], %t;\nadd.u32 %apart, %mine, {4 * LANES};",
                "xor.b32 %other, %t, 5;\nmad.lo.u32 %other, %other, 4, %w;",
                *first,
                *_with_opaque_predicates(w.lines),
                "DONE:",
                *last,
                "ret;\n}\n",
            )
        )


def lanes_launch(seed: int, kind: str) -> EmulatedLaunch:
    """A block of some lanes; of exchanges full warps."""
    draw = Random(f"launch {kind} {seed}")
    threads = draw.choice((32, 64) if kind == "exchanges" else (1, 5, 32, 33, 64))
    n, nn = draw.choice((0, 1, 5, 17, 1000, -1)), draw.choice((0, 3, 1 << 33, draw.getrandbits(64)))
    return EmulatedLaunch((threads, 1, 1), (1, 1, 1), (_words(seed % 16), n, nn))


@cache
def _words(seed: int) -> NDArray[np.uint32]:
    random = np.random.default_rng(seed)
    count = (LANES * ROW + 2048) // 4
    data = random.integers(0, 1 << 32, count, dtype=np.uint32)
    few = random.random(count)
    return np.where(few < 0.6, data % 40, np.where(few < 0.7, ~(data % 3), data)).astype(np.uint32)


# --- floating point -------------------------------------------------------------------------------

_MODES = ("rn", "rn", "rn", "rz", "rm", "rp")
_WHOLE = ("rni", "rzi", "rmi", "rpi")
_ORDERS = (
    "lt", "le", "gt", "ge", "eq", "ne", "ltu", "leu", "gtu", "geu", "equ", "neu", "num", "nan",
)  # fmt: skip
_APPROXIMATE = (
    "rcp.approx.ftz", "rcp.approx", "sqrt.approx.ftz", "rsqrt.approx.ftz", "sqrt.approx",
    "rsqrt.approx", "ex2.approx.ftz", "lg2.approx.ftz", "sin.approx.ftz", "cos.approx.ftz",
    "tanh.approx", "div.approx.ftz", "div.full.ftz",
)  # fmt: skip
_PLACES = {"f": 4, "g": 8}
_COUNT = 6


class _Floats:
    """Registers of numbers, of words and predicates; approximations are stored where they arise."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"translation floats {seed}")
        self.lines: list[str] = []
        self.labels = self.near = 0

    def some(self, letter: str) -> str:
        return f"%{letter}{self.random.randint(1, _COUNT)}"

    def operand(self, letter: str) -> str:
        if self.random.random() < 0.75:
            return self.some(letter)
        number = self.random.choice((0.0, -0.0, 1.0, 0.5, -2.5, 3.0, 1e-39, 1e30, 0.1))
        if letter == "f":
            return f"0f{int(np.float32(number).view(np.uint32)):08X}"
        return f"0d{int(np.float64(number).view(np.uint64)):016X}"

    def guarded(self, text: str) -> None:
        chance = self.random.random()
        guard = f"@{self.random.choice(('', '!'))}{self.some('p')} " if chance < 0.15 else ""
        self.lines.append(guard + text)

    def statement(self) -> None:
        chosen = self.random
        letter, kind = chosen.choice((("f", "f32"), ("f", "f32"), ("f", "f32"), ("g", "f64")))
        to, a, b, c = self.some(letter), *(self.operand(letter) for _ in "abc")
        mode = chosen.choice(_MODES)
        is_single = letter == "f"
        more = (".ftz" * (chosen.random() < 0.25) + ".sat" * (chosen.random() < 0.1)) * is_single
        ftz = ".ftz" * (chosen.random() < 0.25) * is_single
        whole, number = chosen.choice(_WHOLE), chosen.choice(("s32", "u32", "s64", "u64"))
        words = self.some("r" if number[1:] == "32" else "d")
        order = chosen.choice(_ORDERS)
        exact = chosen.choice(("rn", "rn", mode))
        forms = [
            *[f"{name}.{mode}{more}.{kind} {to}, {a}, {b};" for name in ("add", "sub", "mul")],
            *[f"fma.{mode}{more}.{kind} {to}, {a}, {b}, {c};"] * 3,
            f"{chosen.choice(('min', 'max'))}{ftz}.{kind} {to}, {a}, {b};" if is_single else "",
            f"{chosen.choice(('neg', 'abs'))}{ftz}.{kind} {to}, {self.some(letter)};",
            f"setp.{order}{ftz}.{kind} {self.some('p')}, {self.some(letter)}, {b};",
            f"selp.{kind} {to}, {a}, {b}, {self.some('p')};",
            f"cvt.{whole}{ftz}.{number}.{kind} {words}, {self.some(letter)};",
            f"cvt.{mode}.{kind}.{number} {to}, {words};",
            f"cvt.{whole}{ftz}.{kind}.{kind} {to}, {self.some(letter)};",
            f"cvt.f64.f32 {self.some('g')}, {self.some('f')};",
            f"cvt.{mode}.f32.f64 {self.some('f')}, {self.some('g')};",
            f"div.{exact}{ftz}.{kind} {to}, {self.some(letter)}, {b};",
            f"rcp.{exact}{ftz}.{kind} {to}, {self.some(letter)};",
            f"sqrt.{exact}{ftz}.{kind} {to}, {self.some(letter)};",
            f"mov.b32 {self.some('r')}, {self.some('f')};",
            f"add.s32 {self.some('r')}, {self.some('r')}, {chosen.randrange(-3, 9)};",
            f"copysign.f32 {self.some('f')}, {self.some('f')}, {self.some('f')};",
            "near",
        ]
        text = chosen.choice([one for one in forms if one])
        if text.startswith(("neg.f32", "neg.ftz.f32", "copysign")):  # see _one_pattern
            self.lines += _one_pattern(text)
        elif text != "near":
            self.guarded(text)
        elif self.near < 8:
            name = chosen.choice(_APPROXIMATE)
            other = ", %q2" if name.startswith("div") else ""
            self.lines += [  # of moderate numbers
                f"and.b32 %w, {self.some('r')}, 0x7fffff;\nor.b32 %w, %w, 0x3f800000;",
                "mov.b32 %q1, %w;\nmov.f32 %q2, 0f40333333;",
                f"{name}.f32 %q1, %q1{other};",
                f"st.global.f32 [%near+{4 * self.near}], %q1;",
            ]
            self.near += 1

    def part(self, count: int) -> None:
        for _ in range(count):
            self.statement()

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def branch(self) -> None:
        other, end = self.label(), self.label()
        self.lines.append(f"@{self.some('p')} bra {other};")
        self.part(3)
        self.lines += [f"bra {end};", f"{other}:"]
        self.part(3)
        self.lines.append(f"{end}:")

    def loop(self) -> None:
        begin = self.label()
        limit = self.random.choice(("%w2", str(self.random.randrange(1, 5))))
        self.lines += ["and.b32 %w2, %r1, 3;", "mov.u32 %i, 0;", f"{begin}:"]
        near, self.near = self.near, 8
        self.part(4)
        self.near = near
        self.lines += ["add.u32 %i, %i, 1;", f"setp.lt.u32 %p9, %i, {limit};", f"@%p9 bra {begin};"]

    def kernel(self, name: str) -> str:
        """The text of the kernel."""
        self.part(6)
        for _ in range(self.random.choice((1, 1, 2))):
            self.random.choice((self.loop, self.branch, self.branch))()
            self.part(3)
        first, last = list[str](), list[str]()
        for place, (letter, kind) in enumerate(
            (("f", "f32"), ("g", "f64"), ("r", "u32"), ("d", "u64"))
        ):
            bits = "b64" if kind.endswith("64") else "b32"
            for number in range(1, _COUNT + 1):
                at = 64 * place + 8 * number
                first.append(f"ld.global.{kind} %{letter}{number}, [%own+{at}];")
                place_of = f"[%wide+{8 * number}]" if letter == "g" else f"[%own+{at}]"
                last.append(f"st.global.{bits} {place_of}, %{letter}{number};")
        for number in range(1, _COUNT + 1):
            first.append(f"setp.lt.f32 %p{number}, %f{number}, %f{number % _COUNT + 1};")
        return "\n".join(
            (
                f".visible .entry {name}(.param .u64 data, .param .u64 near, .param .u64 wide)",
                "{",
                f".reg .f32 %f<{_COUNT + 1}>, %q<3>; .reg .f64 %g<{_COUNT + 1}>;",
                f".reg .b32 %r<{_COUNT + 1}>; .reg .b64 %d<{_COUNT + 1}>; .reg .pred %p<10>;",
                ".reg .b32 %t, %w, %w2, %i, %apart; .reg .b64 %own, %near, %wide;",
                f".shared .align 4 .b32 words[{LANES}];",
                "mov.u32 %t, %tid.x;\nmov.u32 %apart, words;\nmad.lo.u32 %apart, %t, 4, %apart;",
                "setp.lt.u32 %p9, %t, 9;",
                "ld.param.u64 %own, [data];\nmad.wide.u32 %own, %t, 512, %own;",
                "ld.param.u64 %near, [near];\nmad.wide.u32 %near, %t, 32, %near;",
                "ld.param.u64 %wide, [wide];\nmad.wide.u32 %wide, %t, 64, %wide;",
                *first,
                *_with_opaque_predicates(self.lines),
                *last,
                "ret;\n}\n",
            )
        )


_SINGLES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1 / 3, 3e38, -3e38, 1e-38, 1e-40, -1e-45, 2.0**24,
    2.0**31, -(2.0**31), 2.0**32, 2.0**63, 1e10, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
_DOUBLES = (*_SINGLES, 1e300, -1e-300, 5e-324, 2.0**53, 1e-310, 1.7e308)


def floats_launch(seed: int) -> EmulatedLaunch:
    """40 lanes, with numbers at the edges among ordinary ones."""
    words = _float_words(seed % 16).copy()
    near, wide = np.zeros(40 * 8, np.float32), np.zeros(40 * 8, np.float64)
    return EmulatedLaunch((40, 1, 1), (1, 1, 1), (words, near, wide))


@cache
def _float_words(seed: int) -> NDArray[np.uint32]:
    draw = Random(seed)

    def number(edges: Sequence[float], range_: int) -> float:
        if draw.random() < 0.35:
            return draw.choice(edges)
        return draw.uniform(-4, 4) * 2.0 ** draw.choice((0, 0, draw.randrange(-range_, range_)))

    rows = np.zeros((40, 128), np.uint32)
    for row in rows:
        for place in range(1, _COUNT + 1):
            row[2 * place] = np.float32(number(_SINGLES, 120)).view(np.uint32)
            wide = row[16 + 2 * place : 18 + 2 * place]
            wide[:] = np.array([number(_DOUBLES, 900)], np.float64).view(np.uint32)
            row[32 + 2 * place] = draw.choice((draw.getrandbits(32), draw.randrange(40)))
            row[48 + 2 * place : 50 + 2 * place] = [draw.getrandbits(32) for _ in "ab"]
    # what is no number has the bits that instructions give it: the least of x and x is x to ptxas
    singles = rows[:, :16]
    singles[np.isnan(singles.view(np.float32))] = 0x7FFFFFFF
    return rows.reshape(-1)


KEPT = (("switches", 5), ("switches", 65), ("exchanges", 95), ("floats", 12), ("floats", 81))
"""Programs that tests/data/sass keeps, made by ptxas for sm_80 and sm_90."""

if __name__ == "__main__":  # what tests/data/sass/build.sh keeps
    texts = [made(kind, range(seed, seed + 1)).text.removeprefix(HEAD) for kind, seed in KEPT]
    print(end=HEAD + "".join(texts))
