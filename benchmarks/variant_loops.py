"""Random loops that end on data, and what they do: a small interpreter of its own.

A loop is a list of instructions that is written as PTX for the analysis and executed here, number
by number, on data that no analysis sees. Starts, steps and tests are drawn from what compilers make
of searches, merges, divisions and bit tricks, with offsets and types that are often wrong, so that
many loops have no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

REGISTERS = 10
Row = tuple[str, ...]
"""Opcode with modifiers, target, sources; ``("label", name)``, ``("bra", guard, name)``."""

_POOL = (0, 1, 2, 3, 4, 5, 7, 8, 31, 100, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
_WORD = 1 << 32


@dataclass(frozen=True)
class RandomLoop:
    """A program with loops at labels ``L``, ``M``."""

    rows: tuple[Row, ...]

    def ptx(self) -> str:
        """The kernel in PTX."""
        lines = [_line(row) for row in self.rows]
        return _HEAD + "\n".join(lines) + "\nret;\n}\n"

    def run(self, rng: Random, most: int) -> dict[str, int]:
        """How often each label was passed in a run on random data, which ends after ``most``."""
        return _run(self.rows, rng, most)


_HEAD = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{{
.reg .b32 %r<{REGISTERS}>; .reg .b64 %d<6>; .reg .pred %p<9>;
ld.param.u64 %d1, [data];
"""


def _line(row: Row) -> str:
    if row[0] == "label":
        return f"{row[1]}:"
    if row[0] == "bra":
        return f"@{row[1]} bra {row[2]};"
    guard = ""
    if row[0].startswith("@"):
        guard, row = f"{row[0]} ", row[1:]
    if row[0].startswith("ld"):
        return f"{guard}{row[0]} {row[1]}, [%d1];"
    return f"{guard}{row[0]} {', '.join(row[1:])};"


def draw_loop(rng: Random) -> RandomLoop:
    """A random program: starts, a loop, and at times one behind it that counts to a result."""
    rows: list[Row] = []
    for number in range(1, 5):
        rows += _start(rng, f"%r{number}")
    if rng.random() < 0.5:
        operator = rng.choice(("lt", "ge", "eq", "gt"))
        rows += [(f"setp.{operator}.s32", "%p8", *rng.sample(_NAMES, 2)), ("bra", "%p8", "OUT")]
    rows += [("label", "L"), *rng.choice(_BODIES)(rng), ("bra", "%p1", "L"), ("label", "OUT")]
    if rng.random() < 0.3:
        name = rng.choice(_NAMES)
        rows += [("mov.u32", "%r9", "0"), ("label", "M"), ("add.s32", "%r9", "%r9", "1")]
        rows += [("setp.lt.s32", "%p1", "%r9", name), ("bra", "%p1", "M")]
    return RandomLoop(tuple(rows))


_NAMES = ("%r1", "%r2", "%r3", "%r4")


def _start(rng: Random, name: str) -> list[Row]:
    small = str(rng.choice((0, 0, 0, 1, 1, 2, 10, 37, 100, 1000, -1)))
    match rng.randrange(7):
        case 0 | 1 | 2:
            return [("mov.u32", name, small)]
        case 3:
            return [("ld.global.u8", name)]
        case 4:
            return [("ld.global.u32", name), ("and.b32", name, name, str(rng.choice((3, 31, 255))))]
        case 5:
            clamped: list[Row] = [("ld.global.u32", name), ("min.s32", name, name, "50")]
            return [*clamped, ("max.s32", name, name, rng.choice(("0", "1")))]
        case _:
            return [("ld.global.u32", name)]


def _search(rng: Random) -> list[Row]:
    """A halving search between %r1 and %r2, of some of the shapes that there are."""
    kind = rng.choice(("s32", "u32"))
    rows: list[Row] = []
    match rng.randrange(4):
        case 0:
            rows += [("add.s32", "%r5", "%r1", "%r2"), (f"shr.{kind}", "%r5", "%r5", "1")]
        case 1:
            rows += [("add.s32", "%r5", "%r1", "%r2"), ("shr.u32", "%r6", "%r5", "31")]
            rows += [("add.s32", "%r5", "%r5", "%r6"), ("shr.s32", "%r5", "%r5", "1")]
        case 2:
            rows += [("sub.s32", "%r5", "%r2", "%r1"), (f"shr.{kind}", "%r5", "%r5", "1")]
            rows += [("add.s32", "%r5", "%r5", "%r1")]
        case _:
            divide = (f"div.{kind}", "%r5", "%r5", str(rng.choice((2, 3, 4))))
            rows += [("sub.s32", "%r5", "%r2", "%r1"), divide, ("add.s32", "%r5", "%r5", "%r1")]
    up, down = str(rng.choice((1, 1, 0, -1, 2))), str(rng.choice((0, 0, -1, 1)))
    rows += [*_data("%p2"), ("add.s32", "%r6", "%r5", up), ("add.s32", "%r7", "%r5", down)]
    rows += [("selp.b32", "%r1", "%r6", "%r1", "%p2"), ("selp.b32", "%r2", "%r2", "%r7", "%p2")]
    if rng.random() < 0.3:
        return [*rows, ("add.s32", "%r8", "%r1", "1"), (f"setp.gt.{kind}", "%p1", "%r2", "%r8")]
    return [*rows, (f"setp.{rng.choice(('lt', 'le', 'ne'))}.{kind}", "%p1", "%r1", "%r2")]


def _data(predicate: str) -> list[Row]:
    return [
        ("ld.global.u32", "%r8"),
        ("and.b32", "%r8", "%r8", "1"),
        ("setp.eq.s32", predicate, "%r8", "0"),
    ]


def _merge(rng: Random) -> list[Row]:
    """Two indices, of which one or the other goes on."""
    step = str(rng.choice((1, 1, 1, 2, 0)))
    rows: list[Row] = [
        *_data("%p2"),
        ("add.s32", "%r5", "%r1", "1"),
        ("add.s32", "%r6", "%r2", step),
    ]
    rows += [("selp.b32", "%r1", "%r5", "%r1", "%p2"), ("selp.b32", "%r2", "%r2", "%r6", "%p2")]
    rows += [("setp.lt.s32", "%p3", "%r1", "%r3"), ("setp.lt.s32", "%p4", "%r2", "%r4")]
    return [*rows, (rng.choice(("and.pred", "and.pred", "or.pred")), "%p1", "%p3", "%p4")]


def _counter(rng: Random) -> list[Row]:
    """A counter beside what data decide."""
    rows: list[Row] = [*_data("%p2"), ("mov.u32", "%r6", "%r1")]
    step = str(rng.choice((1, -1, 2, -4, 3)))
    rows += [("add.s32", "%r5", "%r1", step)]
    rows += [("selp.b32", "%r1", "%r5", rng.choice(("%r1", "%r5", "%r2")), "%p2")]
    rows += [("@%p2", "add.s32", "%r2", "%r2", rng.choice(("1", "2", "-1")))]
    tested = rng.choice(("%r1", "%r5", "%r6", "%r2"))
    bound = rng.choice(("%r3", "%r4", "0", "64"))
    operator = rng.choice(("lt", "gt", "ne", "ge", "le"))
    rows += [(f"setp.{operator}.{rng.choice(('s32', 'u32'))}", "%p3", tested, bound)]
    return [*rows, (rng.choice(("and.pred", "and.pred", "or.pred")), "%p1", "%p2", "%p3")]


def _bits(rng: Random) -> list[Row]:
    """Numbers that lose bits, digits or remainders."""
    rows: list[Row] = []
    kind = rng.choice(("u32", "s32"))
    match rng.randrange(8):
        case 0:
            rows += [(f"shr.{kind}", "%r1", "%r1", str(rng.choice((1, 2, 3))))]
        case 1:
            rows += [("add.s32", "%r5", "%r1", "-1"), ("and.b32", "%r1", "%r1", "%r5")]
        case 2:
            rows += [("neg.s32", "%r5", "%r1"), ("and.b32", "%r5", "%r1", "%r5")]
            rows += [(rng.choice(("sub.s32", "xor.b32", "add.s32")), "%r1", "%r1", "%r5")]
        case 3:
            rows += [("mov.u32", "%r5", "%r1"), (f"rem.{kind}", "%r1", "%r2", "%r1")]
            rows += [("mov.u32", "%r2", "%r5")]
        case 4:
            rows += [(f"div.{kind}", "%r1", "%r1", str(rng.choice((2, 3, 10))))]
        case 5:
            rows += [("mul.wide.u32", "%d2", "%r1", "-858993459"), ("shr.u64", "%d2", "%d2", "35")]
            rows += [("cvt.u32.u64", "%r1", "%d2")]
        case 6:
            rows += [("add.s32", "%r5", "%r1", str(rng.choice((1, -1, 3))))]
            rows += [(f"shr.{kind}", "%r1", "%r5", "1")]
        case _:
            rows += [("mul.hi.u32", "%r1", "%r1", str(rng.choice((-1431655765, 715827883))))]
    operator, bound = rng.choice(("ne", "gt", "ge")), rng.choice(("0", "1", "9", "%r3"))
    return [*rows, (f"setp.{operator}.{rng.choice((kind, 'u32'))}", "%p1", "%r1", bound)]


def _remainder(rng: Random) -> list[Row]:
    """What is left after fours, or the fours; the start is in the loop's first pass."""
    part = [("and.b32", "%r5", "%r1", "3"), ("sub.s32", "%r6", "%r1", "%r5")]
    step = ("add.s32", "%r1", "%r1", str(rng.choice((-4, -1))))
    tested = rng.choice(("%r6", "%r5", "%r1"))
    return [*part, step, (f"setp.{rng.choice(('ne', 'gt'))}.s32", "%p1", tested, "0")]


_BODIES: tuple[Callable[[Random], list[Row]], ...] = (
    _search,
    _search,
    _merge,
    _counter,
    _counter,
    _bits,
    _bits,
    _remainder,
)


def _run(rows: tuple[Row, ...], rng: Random, most: int) -> dict[str, int]:
    registers: dict[str, int] = {}
    labels = {row[1]: place for place, row in enumerate(rows) if row[0] == "label"}
    passed = dict.fromkeys(labels, 0)
    place = 0
    bias = rng.random()
    while place < len(rows):
        row = rows[place]
        place += 1
        if row[0] == "label":
            passed[row[1]] += 1
            if passed[row[1]] > most:
                break
        elif row[0] == "bra":
            place = labels[row[2]] if registers[row[1]] else place
        elif row[0].startswith("@"):
            if registers[row[0][1:]]:
                _step(row[1:], registers, rng, bias)
        else:
            _step(row, registers, rng, bias)
    return passed


def _step(row: Row, registers: dict[str, int], rng: Random, bias: float) -> None:
    opcode, target, *names = row
    words = opcode.split(".")
    if words[0] == "ld":
        drawn = rng.choice(_POOL) if rng.random() < 0.7 else rng.randrange(_WORD)
        drawn = drawn & ~1 | int(rng.random() < bias) if rng.random() < 0.8 else drawn
        registers[target] = drawn % (256 if words[-1] == "u8" else _WORD)
        return
    kind = words[-1]
    bits = 1 if kind == "pred" else int(kind[1:])
    sources = [
        registers.get(name, 0) if name.startswith("%") else int(name) % (1 << bits)
        for name in names
    ]
    if words[0] == "selp":
        registers[target] = sources[0] if sources[2] else sources[1]
        return
    if kind[0] == "s":
        sources = [n - (1 << bits) if n >> (bits - 1) else n for n in sources]
    if words[0] == "setp":
        registers[target] = int(_COMPARE[words[1]](*sources))
    else:
        key = ".".join(words[:2]) if words[1] in ("hi", "wide") else words[0]
        width = 64 if words[1] == "wide" or (words[-1].endswith("64") and words[0] != "cvt") else 32
        registers[target] = _COMPUTE[key](*sources) % (1 << (1 if kind == "pred" else width))


def _quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_COMPUTE: dict[str, Callable[..., int]] = {
    "mov": lambda a: a,
    "cvt": lambda a: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: -a,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "shr": lambda a, b: a >> b,
    "mul.hi": lambda a, b: a * b >> 32,
    "mul.wide": lambda a, b: a * b,
    "div": _quotient,
    "rem": lambda a, b: a - b * _quotient(a, b) if b else a,
}
