"""Random loops on narrow words: idioms of numbers that fall, with types, wraps and tests at odds.

What draws them is meant to mislead: updates and tests differ in sign and width, constants are at
the ends of types, numbers are negative, predicates come from data, updates are guarded.
"""

from __future__ import annotations

from random import Random

from small_words import Program, Row

_CARRIED = ("%r1", "%r2", "%r3")
_ORDERS = ("lt", "le", "gt", "ge", "eq", "ne")


def draw_program(rng: Random, bits: int = 4) -> Program:
    """A program with one loop at ``L``, which may have an exit in its middle."""
    return Program(tuple(_Draw(rng, bits).program()), bits)


class _Draw:
    def __init__(self, rng: Random, bits: int) -> None:
        self.rng = rng
        self.bits = bits
        self.loads = 0

    def program(self) -> list[Row]:
        rng = self.rng
        rows: list[Row] = []
        for name in _CARRIED:
            rows += self.start(name)
        if rng.random() < 0.6:  # what compilers test before a loop
            rows += [*self.test("%p8", wide=False), ("bra", rng.choice(("%p8", "!%p8")), "OUT")]
        rows.append(("label", "L"))
        self.loads = 0
        rows += self.predicate("%p2")
        for _ in range(rng.choice((1, 1, 1, 2))):
            rows += rng.choice(_IDIOMS)(self)
        if rng.random() < 0.2:
            rows += [*self.test("%p3", wide=False), ("bra", rng.choice(("%p3", "!%p3")), "OUT")]
        if rng.random() < 0.2:
            rows += rng.choice(_IDIOMS)(self)
        rows += self.test("%p1", wide=True)
        return [*rows, ("bra", rng.choice(("%p1", "%p1", "%p1", "!%p1")), "L"), ("label", "OUT")]

    def constant(self) -> str:
        full = 1 << self.bits
        near = (0, 1, 2, 3, -1, -2, full // 2, full // 2 - 1, full // 2 + 1, full // 4, full - 1)
        return str(self.rng.choice(near))

    def sign(self) -> str:
        return self.rng.choice("su")

    def start(self, name: str) -> list[Row]:
        rng = self.rng
        match rng.randrange(8):
            case 0 | 1 | 2:
                return [("mov.u32", name, self.constant())]
            case 3:
                return [(f"ld.global.{self.sign()}16", name)]
            case 4:
                mask = rng.choice(("1", "3", "7", "-2", "-4"))
                return [("ld.global.u32", name), ("and.b32", name, name, mask)]
            case 5:
                kind = f"{self.sign()}32"
                return [
                    ("ld.global.u32", name),
                    (f"min.{kind}", name, name, self.constant()),
                    (f"max.{kind}", name, name, self.constant()),
                ]
            case _:
                return [("ld.global.u32", name)]

    def predicate(self, name: str) -> list[Row]:
        """A predicate that data decide, or that is constant."""
        if self.rng.random() < 0.3:
            return [(f"setp.{self.rng.choice(_ORDERS)}.s32", name, *self.rng.sample(_CARRIED, 2))]
        self.loads += 1
        return [("ld.global.u8", "%r9"), ("setp.eq.u32", name, "%r9", "0")]

    def operand(self) -> str:
        return self.rng.choice((*_CARRIED, self.constant(), self.constant()))

    def test(self, name: str, *, wide: bool) -> list[Row]:
        """A comparison, of numbers of any type, joined with what data decide or not."""
        rng = self.rng
        order = rng.choice(_ORDERS)
        kind = f"{self.sign()}32"
        one, other = rng.choice((*_CARRIED, "%r1", "%r1")), self.operand()
        if wide and rng.random() < 0.2:
            bits = rng.choice((16, 64))
            register = {16: "%h", 64: "%d"}[bits]
            source = self.sign()
            rows: list[Row] = [
                (f"cvt.{self.sign()}{bits}.{source}32", f"{register}1", one),
                (f"cvt.{self.sign()}{bits}.{self.sign()}32", f"{register}2", rng.choice(_CARRIED)),
            ]
            other = f"{register}2" if rng.random() < 0.7 else self.constant()
            return [*rows, (f"setp.{order}.{self.sign()}{bits}", name, f"{register}1", other)]
        if rng.random() < 0.2:
            add: Row = ("add.s32", "%r8", one, rng.choice(("1", "-1", "2", "3")))
            return [add, (f"setp.{order}.{kind}", name, "%r8", other)]
        if wide and rng.random() < 0.4:
            joint = rng.choice(("and", "or"))
            return [(f"setp.{order}.{joint}.{kind}", name, one, other, rng.choice(("%p2", "!%p2")))]
        return [(f"setp.{order}.{kind}", name, one, other)]

    def guarded(self, rows: list[Row]) -> list[Row]:
        """The last row only where data say so, at times."""
        if self.rng.random() < 0.25 and len(rows[-1][0].split(".")) > 1:
            return [*rows[:-1], (self.rng.choice(("@%p2", "@!%p2")), *rows[-1])]
        return rows

    def step(self) -> list[Row]:
        """A counter."""
        name = self.rng.choice(_CARRIED)
        by = self.rng.choice(("1", "1", "-1", "-1", "2", "-2", "3", "-3", self.operand()))
        return self.guarded(
            [(f"{self.rng.choice(('add', 'sub'))}.{self.sign()}32", name, name, by)]
        )

    def lowest_bit(self) -> list[Row]:
        """A number plus, less or without its lowest bit."""
        name = self.rng.choice(_CARRIED)
        if self.rng.random() < 0.3:
            rows = [("add.s32", "%r5", name, "-1"), ("and.b32", name, name, "%r5")]
            return self.guarded(rows)
        rows = [("neg.s32", "%r5", name), ("and.b32", "%r6", *self.shuffled("%r5", name))]
        if self.rng.random() < 0.2:
            rows = [("not.b32", "%r5", name), ("add.s32", "%r5", "%r5", "1"), rows[1]]
        opcode = self.rng.choice(("add.s32", "add.s32", "sub.s32", "xor.b32", "or.b32"))
        sources = (name, "%r6") if opcode == "sub.s32" else self.shuffled("%r6", name)
        return self.guarded([*rows, (opcode, name, *sources)])

    def shuffled(self, *names: str) -> tuple[str, ...]:
        return tuple(self.rng.sample(names, len(names)))

    def shift(self) -> list[Row]:
        """Halving, doubling, digits."""
        name = self.rng.choice(_CARRIED)
        kind = f"{self.sign()}32"
        by = self.rng.choice(("1", "1", "2", "3"))
        number = self.rng.choice(("2", "3", "3", "-2", "-3", "-1", "1"))
        rows: list[Row] = self.rng.choice(
            (
                [(f"shr.{kind}", name, name, by)],
                [("shl.b32", name, name, by)],
                [("add.s32", name, name, name)],
                [(f"div.{kind}", name, name, number)],
                [(f"rem.{kind}", name, name, number)],
                [("mul.lo.s32", name, name, number)],
                [(f"mul.hi.{kind}", name, name, self.constant())],
                [("mul.wide.u32", "%d3", name, self.constant()), ("shr.u64", "%d3", "%d3", "4"),
                 ("cvt.u32.u64", name, "%d3")],
                [("add.s32", "%r5", name, self.constant()), (f"shr.{kind}", name, "%r5", by)],
                [("mad.lo.s32", name, name, number, self.operand())],
            )
        )  # fmt: skip
        return self.guarded(rows)

    def euclid(self) -> list[Row]:
        """A remainder, and the number that it was divided by."""
        one, two = self.rng.sample(_CARRIED, 2)
        kind = f"{self.sign()}32"
        if self.rng.random() < 0.3:
            return [
                (f"rem.{kind}", "%r5", one, two),
                ("mov.u32", one, two),
                ("mov.u32", two, "%r5"),
            ]
        return [("mov.u32", "%r5", one), (f"rem.{kind}", one, two, one), ("mov.u32", two, "%r5")]

    def root(self) -> list[Row]:
        """Half the sum of a number and a quotient by it."""
        one, number = self.rng.sample(_CARRIED, 2)
        divided, halved = (f"{self.sign()}32" for _ in range(2))
        rows: list[Row] = [
            ("mov.u32", "%r4", one),
            (f"div.{divided}", "%r5", number, "%r4"),
            ("add.s32", "%r5", "%r5", "%r4"),
            (f"shr.{halved}", one, "%r5", "1"),
        ]
        return self.guarded(rows) if self.rng.random() < 0.3 else rows

    def stein(self) -> list[Row]:
        """The difference of two numbers, one of which has lost its zeros."""
        one, two = self.rng.sample(_CARRIED, 2)
        low, high = self.rng.choice((("min", "max"), ("min", "max"), ("max", "min")))
        kind = f"{self.sign()}32"
        rows: list[Row] = [
            ("brev.b32", "%r5", two),
            ("bfind.shiftamt.u32", "%r5", "%r5"),
            (f"shr.{self.rng.choice('uuus')}32", "%r6", two, "%r5"),
        ]
        ends: list[Row] = [
            (f"{low}.{kind}", "%r7", one, "%r6"),
            (f"{high}.{kind}", "%r6", one, "%r6"),
            ("sub.s32", two, "%r6", "%r7"),
            ("mov.u32", one, "%r7"),
        ]
        return [*rows, *(self.guarded(ends) if self.rng.random() < 0.3 else ends)]

    def search(self) -> list[Row]:
        """A halving search."""
        kind = f"{self.sign()}32"
        low, high = self.rng.sample(_CARRIED, 2)
        rows: list[Row] = [("add.s32", "%r5", low, high), (f"shr.{kind}", "%r5", "%r5", "1")]
        if self.rng.random() < 0.5:
            rows = [("sub.s32", "%r5", high, low), (f"shr.{kind}", "%r5", "%r5", "1")]
            rows += [("add.s32", "%r5", "%r5", low)]
        up, down = self.rng.choice(("1", "1", "0", "2")), self.rng.choice(("0", "-1", "1"))
        rows += [("add.s32", "%r6", "%r5", up), ("add.s32", "%r7", "%r5", down)]
        return [
            *rows,
            ("selp.b32", low, "%r6", low, "%p2"),
            ("selp.b32", high, high, "%r7", "%p2"),
        ]

    def merge(self) -> list[Row]:
        """One of two numbers goes on."""
        one, two = self.rng.sample(_CARRIED, 2)
        by = self.rng.choice(("1", "-1", "2"))
        return [
            ("add.s32", "%r5", one, by),
            ("add.s32", "%r6", two, self.rng.choice(("1", "-1", "-2"))),
            ("selp.b32", one, "%r5", one, "%p2"),
            ("selp.b32", two, two, "%r6", "%p2"),
        ]

    def narrow(self) -> list[Row]:
        """A number through a narrower or wider type."""
        name = self.rng.choice(_CARRIED)
        if self.rng.random() < 0.4:
            small = self.rng.choice((8, 16))
            return [(f"cvt.{self.sign()}32.{self.sign()}{small}", name, name)]
        if self.rng.random() < 0.5:
            return [
                (f"cvt.u16.{self.sign()}32", "%h3", name),
                (f"add.{self.sign()}16", "%h3", "%h3", self.rng.choice(("1", "-1", "3"))),
                (f"cvt.{self.sign()}32.{self.sign()}16", name, "%h3"),
            ]
        return [
            (f"cvt.{self.sign()}64.{self.sign()}32", "%d3", name),
            (f"add.{self.sign()}64", "%d3", "%d3", self.rng.choice(("-1", "1", "8"))),
            (f"{self.rng.choice(('shr.s64', 'shr.u64', 'shl.b64'))}", "%d3", "%d3", "1"),
            (f"cvt.{self.sign()}32.{self.sign()}64", name, "%d3"),
        ]

    def bounds(self) -> list[Row]:
        """A number kept in a range, its size, its bits."""
        name, kind = self.rng.choice(_CARRIED), f"{self.sign()}32"
        rows: list[Row] = [
            self.rng.choice(
                (
                    (f"min.{kind}", name, name, self.operand()),
                    (f"max.{kind}", name, name, self.operand()),
                    ("abs.s32", name, name),
                    ("and.b32", name, name, self.operand()),
                    ("or.b32", name, name, self.operand()),
                    ("xor.b32", name, name, self.operand()),
                    ("popc.b32", name, name),
                    ("clz.b32", name, name),
                    ("neg.s32", name, name),
                    ("mov.u32", name, self.operand()),
                )
            )
        ]
        if rows[0][0][:4] in ("popc", "clz."):
            return rows
        return self.guarded(rows)


_IDIOMS = (
    _Draw.step,
    _Draw.step,
    _Draw.step,
    _Draw.lowest_bit,
    _Draw.lowest_bit,
    _Draw.shift,
    _Draw.shift,
    _Draw.euclid,
    _Draw.root,
    _Draw.stein,
    _Draw.search,
    _Draw.merge,
    _Draw.narrow,
    _Draw.bounds,
)
