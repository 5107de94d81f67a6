"""Random loops: the shapes in which kernels count, halve, search and walk along bits.

Every shape takes its numbers from data, parameters, lanes or constants, of 16, 32 or 64 bits,
signed or not; bodies are random statements, with ways out in the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from random_statements import Writer

Body = Callable[[], None]


class Loops:
    """Loops of all shapes, written by a writer."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.random: Random = writer.random
        self.shapes: dict[str, Callable[[Body], None]] = {
            "count": self.count,
            "until unequal": self.unequal,
            "double": self.double,
            "halve": self.halve,
            "digits": self.digits,
            "search": self.search,
            "fenwick": self.fenwick,
            "bits": self.bits,
            "divisor": self.divisor,
            "heap": self.heap,
            "while data": self.while_data,
            "joined": self.joined,
        }

    def write(self, body: Body, shape: str | None = None) -> str:
        """A loop of a shape; returns the shape's name."""
        name = shape or self.random.choice(list(self.shapes))
        self.shapes[name](body)
        return name

    # --- parts ------------------------------------------------------------------------------------

    def start(self, bits: int) -> str:
        """A counter with its first value."""
        w = self.writer
        name = w.new(bits)
        kind = self.random.random()
        if kind < 0.5:
            w.emit(f"mov.u{bits} {name}, {self.random.choice((0, 0, 0, 1, 2, 5))};")
        elif kind < 0.7:
            w.special(name, bits)
        elif kind < 0.85:
            w.emit(f"mov.u{bits} {name}, {w.some(bits)};")
        else:
            w.emit(f"mov.u{bits} {name}, {w.constant(bits)};")
        return name

    def limit(self, bits: int) -> str:
        """What a counter is compared with: mostly small."""
        w, chooser = self.writer, self.random
        kind = chooser.random()
        if kind < 0.3:
            return str(chooser.randrange(1, 14))
        if kind < 0.75:
            name = w.new(bits)
            w.load(name, bits)
            if chooser.random() < 0.6:
                w.restrict(name, bits)
            return name
        if kind < 0.9:
            return w.some(bits)
        return w.constant(bits)

    def data(self, bits: int, small: float) -> str:
        """A new register with data."""
        w = self.writer
        name = w.new(bits)
        w.load(name, bits)
        if self.random.random() < small:
            w.restrict(name, bits)
        return name

    def _again(self, label: str, test: str) -> None:
        """The branch back: where ``test`` (with a place for the predicate) holds, or fails."""
        w = self.writer
        p = w.predicate_target() if self.random.random() < 0.3 else w.new(1)
        w.emit(test.format(p))
        if self.random.random() < 0.25:
            end = w.label()
            w.emit(f"@!{p} bra {end};")
            w.emit(f"bra {label};")
            w.emit(f"{end}:")
        else:
            w.emit(f"@{p} bra {label};")

    def _body(self, counter: str, bits: int, body: Body) -> None:
        w = self.writer
        locked = self.random.random() < 0.95
        w.pool[bits].append(counter)
        if locked:
            w.locked.add(counter)
        body()
        w.locked.discard(counter)

    def _bits(self) -> int:
        return self.random.choice((32, 32, 32, 32, 64, 16))

    # --- shapes -----------------------------------------------------------------------------------

    def count(self, body: Body) -> None:
        """Up or down by a constant, the test at the top or at the bottom."""
        w, chooser = self.writer, self.random
        bits, sign = self._bits(), chooser.choice("us")
        i, limit = self.start(bits), self.limit(bits)
        up = chooser.random() < 0.7
        step = chooser.choice((1, 1, 1, 2, 3, 4, 7, 32))
        if not up:
            w.emit(f"mov.u{bits} {i}, {limit};")
            limit = str(chooser.choice((0, 0, 1, -1, 3)))
        name = chooser.choice(("lt", "le") if up else ("gt", "ge"))
        label, out = w.label(), w.label()
        top = chooser.random() < 0.4
        w.emit(f"{label}:")
        if top:
            p = w.new(1)
            opposite = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}[name]
            w.emit(f"setp.{opposite}.{sign}{bits} {p}, {i}, {limit};")
            w.emit(f"@{p} bra {out};")
        self._body(i, bits, body)
        operation = "add" if up else "sub"
        w.emit(f"{operation}.{chooser.choice('us')}{bits} {i}, {i}, {step};")
        if top:
            w.emit(f"bra {label};")
        else:
            self._again(label, f"setp.{name}.{sign}{bits} {{}}, {i}, {limit};")
        w.emit(f"{out}:")

    def unequal(self, body: Body) -> None:
        """Counted until it is equal, which a step may jump over."""
        w, chooser = self.writer, self.random
        bits = self._bits()
        i, limit = self.start(bits), self.limit(bits)
        label = w.label()
        w.emit(f"{label}:")
        self._body(i, bits, body)
        w.emit(f"add.s{bits} {i}, {i}, {chooser.choice((1, 1, 1, 2, 3, -1))};")
        self._again(label, f"setp.ne.s{bits} {{}}, {i}, {limit};")

    def double(self, body: Body) -> None:
        """Doubled while below."""
        w, chooser = self.writer, self.random
        bits, sign = self._bits(), chooser.choice("us")
        i, limit = w.new(bits), self.limit(bits)
        w.emit(f"mov.u{bits} {i}, {chooser.choice((1, 1, 2, 3))};")
        if chooser.random() < 0.3:
            w.emit(f"add.s{bits} {i}, {w.some(bits)}, 1;")
        label = w.label()
        w.emit(f"{label}:")
        self._body(i, bits, body)
        w.emit(chooser.choice((f"shl.b{bits} {i}, {i}, 1;", f"add.s{bits} {i}, {i}, {i};")))
        name = chooser.choice(("lt", "le", "ne"))
        self._again(label, f"setp.{name}.{sign}{bits} {{}}, {i}, {limit};")

    def halve(self, body: Body) -> None:
        """Halved while above a number."""
        w, chooser = self.writer, self.random
        bits, sign = self._bits(), chooser.choice("us")
        x = self.data(bits, 0.4)
        label = w.label()
        w.emit(f"{label}:")
        self._body(x, bits, body)
        w.emit(f"shr.{sign}{bits} {x}, {x}, {chooser.choice((1, 1, 1, 2, 0))};")
        name = chooser.choice(("gt", "ne", "ge"))
        floor = chooser.choice((0, 0, 0, 1, -1))
        self._again(
            label, f"setp.{name}.{chooser.choice((sign, 'u', 's'))}{bits} {{}}, {x}, {floor};"
        )

    def digits(self, body: Body) -> None:
        """Divided by a constant until nothing is left."""
        w, chooser = self.writer, self.random
        bits, sign = self._bits(), chooser.choice("us")
        x = self.data(bits, 0.3)
        label = w.label()
        w.emit(f"{label}:")
        self._body(x, bits, body)
        divisor = chooser.choice((2, 3, 10, 10, 16, 7, -2, 1))
        w.emit(f"div.{sign}{bits} {x}, {x}, {divisor};")
        name, floor = chooser.choice((("ne", 0), ("gt", 0), ("gt", 9), ("ne", 1), ("ge", 10)))
        self._again(label, f"setp.{name}.{sign}{bits} {{}}, {x}, {floor};")

    def search(self, body: Body) -> None:
        """A binary search between two ends, decided by data."""
        w, chooser = self.writer, self.random
        bits, sign = chooser.choice((32, 32, 64)), chooser.choice("us")
        low, high, middle = w.new(bits), w.new(bits), w.new(bits)
        w.emit(f"mov.u{bits} {low}, {chooser.choice((0, 0, 0, -1, 1))};")
        w.emit(f"mov.u{bits} {high}, {self.limit(bits)};")
        label, out, right, next_one = w.label(), w.label(), w.label(), w.label()
        p, q = w.new(1), w.new(1)
        w.emit(f"setp.ge.{sign}{bits} {p}, {low}, {high};")
        w.emit(f"@{p} bra {out};")
        w.emit(f"{label}:")
        w.emit(f"add.s{bits} {middle}, {low}, {high};")
        w.emit(f"shr.{chooser.choice((sign, sign, 'u'))}{bits} {middle}, {middle}, 1;")
        self._body(middle, bits, body)
        found = self.data(32, 0.5)
        w.emit(f"setp.{chooser.choice(('lt', 'eq'))}.u32 {q}, {found}, {chooser.randrange(9)};")
        step = chooser.choice((1, 1, 1, 0))
        if chooser.random() < 0.5:
            w.emit(f"@{q} bra {right};")
            w.emit(f"mov.u{bits} {high}, {middle};")
            w.emit(f"bra {next_one};")
            w.emit(f"{right}:")
            w.emit(f"add.s{bits} {low}, {middle}, {step};")
            w.emit(f"{next_one}:")
        else:
            w.emit(f"@!{q} mov.u{bits} {high}, {middle};")
            w.emit(f"@{q} add.s{bits} {low}, {middle}, {step};")
        self._again(label, f"setp.lt.{sign}{bits} {{}}, {low}, {high};")
        w.emit(f"{out}:")

    def fenwick(self, body: Body) -> None:
        """Along the lowest bits: up as in an update, or down as in a query."""
        w, chooser = self.writer, self.random
        bits, sign = chooser.choice((32, 32, 64)), chooser.choice("us")
        i, low = w.new(bits), w.new(bits)
        if chooser.random() < 0.5:
            w.emit(f"add.s{bits} {i}, {w.some(bits)}, 1;")
        else:
            w.emit(f"mov.u{bits} {i}, {chooser.choice((1, 1, 2, 3))};")
        limit = self.limit(bits)
        label = w.label()
        w.emit(f"{label}:")
        self._body(i, bits, body)
        w.emit(f"neg.s{bits} {low}, {i};")
        w.emit(f"and.b{bits} {low}, {i}, {low};")
        if chooser.random() < 0.6:
            w.emit(f"add.s{bits} {i}, {i}, {low};")
            name = chooser.choice(("le", "lt", "ne"))
            self._again(label, f"setp.{name}.{sign}{bits} {{}}, {i}, {limit};")
        else:
            w.emit(f"sub.s{bits} {i}, {i}, {low};")
            name = chooser.choice(("ne", "gt"))
            self._again(label, f"setp.{name}.{sign}{bits} {{}}, {i}, 0;")

    def bits(self, body: Body) -> None:
        """Over the set bits of a word: clear the lowest or the highest."""
        w, chooser = self.writer, self.random
        bits = chooser.choice((32, 32, 64))
        x, less = self.data(bits, 0.2), w.new(bits)
        label = w.label()
        w.emit(f"{label}:")
        self._body(x, bits, body)
        kind = chooser.randrange(3)
        if kind == 0:
            w.emit(f"add.s{bits} {less}, {x}, -1;")
            w.emit(f"and.b{bits} {x}, {x}, {less};")
        else:
            place = w.new(32)
            if kind == 1:
                w.emit(f"clz.b{bits} {place}, {x};")
                w.emit(f"sub.s32 {place}, {bits - 1}, {place};")
            else:
                w.emit(f"bfind.u{bits} {place}, {x};")
            w.emit(f"mov.u{bits} {less}, 1;")
            w.emit(f"shl.b{bits} {less}, {less}, {place};")
            w.emit(
                f"{chooser.choice(('xor', 'xor', 'sub'))}".replace("sub", "xor")
                + (f".b{bits} {x}, {x}, {less};")
            )
        self._again(label, f"setp.ne.s{bits} {{}}, {x}, 0;")

    def divisor(self, body: Body) -> None:
        """Remainders, as in Euclid's algorithm."""
        w, chooser = self.writer, self.random
        bits, sign = chooser.choice((32, 32, 64)), chooser.choice("uus")
        a, b, rest = self.data(bits, 0.5), self.data(bits, 0.5), w.new(bits)
        label, out, p = w.label(), w.label(), w.new(1)
        w.emit(f"setp.eq.s{bits} {p}, {b}, 0;")
        w.emit(f"@{p} bra {out};")
        w.emit(f"{label}:")
        self._body(rest, bits, body) if chooser.random() < 0.5 else None
        w.emit(f"rem.{sign}{bits} {rest}, {a}, {b};")
        w.emit(f"mov.u{bits} {a}, {b};")
        w.emit(f"mov.u{bits} {b}, {rest};")
        name = chooser.choice(("ne", "gt"))
        self._again(label, f"setp.{name}.{sign}{bits} {{}}, {b}, 0;")
        w.emit(f"{out}:")

    def heap(self, body: Body) -> None:
        """Down to a child, or up to the parent."""
        w, chooser = self.writer, self.random
        bits, sign = chooser.choice((32, 32, 64)), chooser.choice("us")
        i = w.new(bits)
        label = w.label()
        if chooser.random() < 0.5:
            w.emit(f"mov.u{bits} {i}, {chooser.choice((0, 1))};")
            limit = self.limit(bits)
            w.emit(f"{label}:")
            self._body(i, bits, body)
            w.emit(f"shl.b{bits} {i}, {i}, 1;")
            w.emit(f"add.s{bits} {i}, {i}, {chooser.choice((1, 1, 2))};")
            if chooser.random() < 0.5:
                p = w.new(1)
                w.emit(f"setp.eq.u32 {p}, {self.data(32, 0.9)}, 1;")
                w.emit(f"@{p} add.s{bits} {i}, {i}, 1;")
            self._again(label, f"setp.lt.{sign}{bits} {{}}, {i}, {limit};")
            return
        w.emit(f"mov.u{bits} {i}, {self.data(bits, 0.5)};")
        w.emit(f"{label}:")
        self._body(i, bits, body)
        w.emit(f"add.s{bits} {i}, {i}, -1;")
        w.emit(f"shr.{sign}{bits} {i}, {i}, 1;")
        self._again(label, f"setp.gt.{chooser.choice((sign, 's'))}{bits} {{}}, {i}, 0;")

    def while_data(self, body: Body) -> None:
        """Until data say so, or a counter ends it."""
        w, chooser = self.writer, self.random
        bits, sign = self._bits(), chooser.choice("us")
        i, limit = self.start(bits), self.limit(bits)
        label, out, p = w.label(), w.label(), w.new(1)
        w.emit(f"{label}:")
        self._body(i, bits, body)
        found = self.data(32, 0.5)
        w.emit(
            f"setp.{chooser.choice(('eq', 'lt', 'gt'))}.s32 {p}, {found}, {chooser.randrange(4)};"
        )
        w.emit(f"@{p} bra {out};")
        w.emit(f"add.{sign}{bits} {i}, {i}, {chooser.choice((1, 1, 2))};")
        self._again(label, f"setp.lt.{sign}{bits} {{}}, {i}, {limit};")
        w.emit(f"{out}:")

    def joined(self, body: Body) -> None:
        """A counter and a condition on data in one predicate; ends at the edges of the type."""
        w, chooser = self.writer, self.random
        bits, sign = self._bits(), chooser.choice("us")
        i, limit = self.start(bits), w.new(bits)
        w.load(limit, bits)
        if chooser.random() < 0.5:
            w.emit(f"and.b{bits} {limit}, {limit}, {(1 << chooser.randrange(2, bits)) - 1};")
        if chooser.random() < 0.6:
            w.emit(f"add.s{bits} {limit}, {limit}, {w.constant(bits)};")
        if chooser.random() < 0.3:
            w.emit(f"min.{sign}{bits} {limit}, {limit}, {w.operand(bits)};")
        label, q = w.label(), w.new(1)
        w.emit(f"{label}:")
        self._body(i, bits, body)
        w.emit(f"add.{sign}{bits} {i}, {i}, {chooser.choice((1, 1, 1, 2, 5))};")
        found = self.data(32, 0.5)
        w.emit(f"setp.ne.s32 {q}, {found}, {chooser.choice((0, 0, 1))};")
        self._again(label, f"setp.lt.and.{sign}{bits} {{}}, {i}, {limit}, {q};")
