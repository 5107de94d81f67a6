"""Random PTX instructions: values of 16, 32 and 64 bits, predicates, loads, lanes, carries.

Registers come from pools that are written again and again, so that values meet old ones on both
sides of branches and around loops. Constants are those at which arithmetic goes wrong.
"""

from __future__ import annotations

from random import Random

POOL = {16: "h", 32: "r", 64: "d"}
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


class Writer:
    """Lines of a kernel's body, and the registers that it names.

    ``few`` are the numbers up to which data are brought.
    """

    few: tuple[int, ...] = (1, 3, 7, 7, 15, 15, 31)

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.count = {16: 0, 32: 0, 64: 0, 1: 0}
        self.pool: dict[int, list[str]] = {16: [], 32: [], 64: []}
        self.predicates: list[str] = []
        self.locked: set[str] = set()
        self.labels = 0
        self.offset = 0

    # --- names ------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def new(self, bits: int) -> str:
        """A register that nothing else writes."""
        self.count[bits] += 1
        return f"%{'p' if bits == 1 else POOL[bits]}{self.count[bits]}"

    def some(self, bits: int) -> str:
        """A register of the pool to be read."""
        if not self.pool[bits]:
            self.pool[bits].append(self.leaf(bits))
        return self.random.choice(self.pool[bits])

    def target(self, bits: int) -> str:
        """A register to be written: one of the pool or a new one in it."""
        free = [name for name in self.pool[bits] if name not in self.locked]
        if free and (len(self.pool[bits]) > 7 or self.random.random() < 0.5):
            return self.random.choice(free)
        name = self.new(bits)
        self.pool[bits].append(name)
        return name

    def predicate(self) -> str:
        """A predicate to be read."""
        if not self.predicates:
            self.compare()
        return self.random.choice(self.predicates)

    def predicate_target(self) -> str:
        free = [name for name in self.predicates if name not in self.locked]
        if free and (len(self.predicates) > 4 or self.random.random() < 0.6):
            return self.random.choice(free)
        name = self.new(1)
        self.predicates.append(name)
        return name

    def constant(self, bits: int) -> str:
        """Small, or 0, -1, a power of two or a neighbour of one."""
        chooser = self.random
        kind = chooser.random()
        if kind < 0.55:
            return str(chooser.randrange(20))
        if kind < 0.65:
            return str(chooser.choice((0, 1, -1, -2)))
        if kind < 0.95:
            return str((1 << chooser.randrange(bits)) + chooser.choice((-1, 0, 1)))
        return str(chooser.getrandbits(bits))

    def operand(self, bits: int, constants: float = 0.35) -> str:
        return self.constant(bits) if self.random.random() < constants else self.some(bits)

    # --- where values come from -------------------------------------------------------------------

    def leaf(self, bits: int) -> str:
        """A new register with something that no computation gave."""
        chooser = self.random
        name = self.new(bits)
        kind = chooser.random()
        if kind < 0.5:
            self.load(name, bits)
        elif kind < 0.75:
            self.special(name, bits)
        elif kind < 0.9 and bits != 16:
            self.emit(f"ld.param.u{bits} {name}, [{'n' if bits == 32 else 'nn'}];")
        else:
            self.emit(f"mov.u{bits} {name}, {self.constant(bits)};")
        return name

    def special(self, name: str, bits: int) -> None:
        source = self.random.choice(("%tid.x", "%tid.x", "%laneid", "%ctaid.x", "%ntid.x"))
        if bits == 32:
            self.emit(f"mov.u32 {name}, {source};")
            return
        low = self.new(32)
        self.emit(f"mov.u32 {low}, {source};")
        self.emit(f"cvt.u{bits}.u32 {name}, {low};")

    def address(self) -> str:
        """An address of data: of the lane's own or the same for all."""
        self.offset += 8
        if self.random.random() < 0.7:
            return f"[%own+{self.offset}]"
        return f"[%base+{self.offset + 0x4000}]"

    def load(self, name: str, bits: int) -> None:
        """Loads arbitrary data; often brings it into a small range."""
        chooser = self.random
        narrow = [size for size in (8, 16, 32, 64) if size <= bits]
        size = chooser.choice((bits, bits, bits, chooser.choice(narrow)))
        sign = chooser.choice("us")
        self.emit(f"ld.global.{sign}{size} {name}, {self.address()};")
        if chooser.random() < 0.7:
            self.restrict(name, bits)

    def restrict(self, name: str, bits: int) -> None:
        """Brings a register into a range that the analysis may know."""
        chooser = self.random
        few = chooser.choice(self.few)
        form = chooser.randrange(8)
        if form <= 2:
            self.emit(f"and.b{bits} {name}, {name}, {few};")
        elif form == 3:
            self.emit(f"min.u{bits} {name}, {name}, {few};")
        elif form == 4:
            self.emit(f"rem.{chooser.choice('us')}{bits} {name}, {name}, {few + 1};")
        elif form == 5:
            self.emit(f"shr.{chooser.choice('us')}{bits} {name}, {name}, {bits - 4};")
        elif form == 6:
            self.emit(f"min.s{bits} {name}, {name}, {few};")
            self.emit(f"max.s{bits} {name}, {name}, {chooser.choice((0, 0, 1, -1, -few))};")
        elif bits == 16:
            self.emit(f"and.b16 {name}, {name}, {few};")
        else:
            self.emit(
                f"bfe.{chooser.choice('us')}{bits} {name}, {name}, {chooser.randrange(9)}, 4;"
            )

    # --- computations -----------------------------------------------------------------------------

    def guard(self) -> str:
        """A guard for one of six instructions."""
        if not self.predicates or self.random.random() < 0.84:
            return ""
        return f"@{self.random.choice(('', '!'))}{self.random.choice(self.predicates)} "

    def compute(self) -> None:
        """One instruction, or a few that belong together."""
        chooser = self.random
        bits = chooser.choice((32, 32, 32, 32, 64, 64, 16))
        kind = chooser.random()
        if kind < 0.12:
            name = self.target(bits)
            self.load(name, bits)
        elif kind < 0.24:
            self.convert()
        elif kind < 0.30 and bits != 16:
            self.carry(bits)
        elif kind < 0.38:
            self.lanes()
        elif kind < 0.42:
            self.restrict(self.target_with_value(bits), bits)
        elif bits == 32 and kind < 0.62:
            self.odd()
        else:
            self.plain(bits)

    def target_with_value(self, bits: int) -> str:
        free = [name for name in self.pool[bits] if name not in self.locked]
        return self.random.choice(free) if free else self.some(bits)

    def plain(self, bits: int) -> None:
        """Arithmetic and logic that every width has."""
        chooser = self.random
        a, b = self.some(bits), self.operand(bits)
        sign = chooser.choice("us")
        forms = [
            f"add.{sign}{bits} {{}}, {a}, {b};",
            f"sub.{sign}{bits} {{}}, {a}, {b};",
            f"mul.lo.{sign}{bits} {{}}, {a}, {b};",
            f"min.{sign}{bits} {{}}, {a}, {b};",
            f"max.{sign}{bits} {{}}, {a}, {b};",
            f"{chooser.choice(('and', 'or', 'xor'))}.b{bits} {{}}, {a}, {b};",
            f"not.b{bits} {{}}, {a};",
            f"neg.s{bits} {{}}, {a};",
            f"shl.b{bits} {{}}, {a}, {self.amount(bits)};",
            f"shr.{sign}{bits} {{}}, {a}, {self.amount(bits)};",
            f"selp.b{bits} {{}}, {a}, {b}, {self.predicate()};",
            f"mov.b{bits} {{}}, {b};",
            f"abs.s{bits} {{}}, {a};",
            f"mad.lo.{sign}{bits} {{}}, {a}, {self.constant(8)}, {self.some(bits)};",
            f"div.{sign}{bits} {{}}, {a}, {chooser.choice((1, 2, 3, 7, 10, 16))};",
            f"rem.{sign}{bits} {{}}, {a}, {chooser.choice((1, 2, 3, 7, 10, 16))};",
            f"mul.hi.{sign}{bits} {{}}, {a}, {b};",
        ]
        chosen = chooser.choice(forms)
        self.emit(self.guard() + chosen.format(self.target(bits)))

    def amount(self, bits: int) -> str:
        if self.random.random() < 0.7:
            return str(self.random.choice((0, 1, 2, 3, 4, bits - 1, bits, bits + 1, 31, 32)))
        return self.some(32)

    def odd(self) -> None:
        """Instructions of 32 bits that look at bits, bytes and halves."""
        chooser = self.random
        a, b, c = self.some(32), self.operand(32), self.operand(32)
        small = self.operand(32, 0.8) if chooser.random() < 0.4 else str(chooser.randrange(36))
        place = small if small.startswith("%") else str(int(small, 0) & 255)  # as ptxas has it
        sign = chooser.choice("us")
        wrap = chooser.choice(("wrap", "clamp"))
        forms = [
            f"popc.b32 {{}}, {a};",
            f"clz.b32 {{}}, {a};",
            f"bfind.{sign}32 {{}}, {a};",
            f"brev.b32 {{}}, {a};",
            f"bfe.{sign}32 {{}}, {a}, {place}, {chooser.randrange(34)};",
            f"bfi.b32 {{}}, {a}, {self.some(32)}, {place}, {chooser.randrange(34)};",
            f"prmt.b32 {{}}, {a}, {b}, {chooser.randrange(0x10000)};",
            f"shf.{chooser.choice('lr')}.{wrap}.b32 {{}}, {a}, {self.some(32)}, {small};",
            f"lop3.b32 {{}}, {a}, {b}, {c}, {chooser.randrange(256)};",
            f"slct.{sign}32.s32 {{}}, {a}, {b}, {self.some(32)};",
            f"sad.{sign}32 {{}}, {a}, {b}, {c};",
            f"mul24.lo.{sign}32 {{}}, {a}, {b};",
            f"set.{chooser.choice(COMPARISONS)}.{sign}32.{sign}32 {{}}, {a}, {b};",
            f"cnot.b32 {{}}, {a};",
            f"add.{chooser.choice(('u16x2', 's16x2'))} {{}}, {a}, {self.some(32)};",
            f"{chooser.choice(('min', 'max'))}.{sign}16x2 {{}}, {a}, {self.some(32)};",
            f"add.sat.s32 {{}}, {a}, {b};",
            f"sub.sat.s32 {{}}, {a}, {b};",
            f"dp4a.u32.{sign}32 {{}}, {a}, {self.some(32)}, {c};",
            f"bmsk.{wrap}.b32 {{}}, {a}, {small};",
            f"szext.{wrap}.{sign}32 {{}}, {a}, {small};",
        ]
        self.emit(self.guard() + chooser.choice(forms).format(self.target(32)))

    def convert(self) -> None:
        """From one width to another: narrowing, widening, saturating, through bytes."""
        chooser = self.random
        source, to = chooser.choice((16, 32, 64)), chooser.choice((16, 32, 64))
        inner = chooser.choice((source, source, min(source, 8 if source == 16 else 16), 8))
        outer = chooser.choice((to, to, to, 8))
        saturates = ".sat" if chooser.random() < 0.2 else ""
        name = self.some(source)
        if chooser.random() < 0.15 and source == 32 and to == 64:
            text = f"mul.wide.{chooser.choice('us')}32 {{}}, {name}, {self.constant(16)};"
        elif chooser.random() < 0.1 and source == 32 and to == 64:
            text = f"mov.b64 {{}}, {{{{{name}, {self.some(32)}}}}};"
        else:
            kinds = chooser.choice("us"), chooser.choice("us")
            fits = inner <= outer if kinds[0] == kinds[1] else kinds[0] == "s" and inner < outer
            if fits:
                saturates = ""  # there is no such conversion: nothing would be cut
            text = f"cvt{saturates}.{kinds[0]}{outer}.{kinds[1]}{inner} {{}}, {name};"
        self.emit(self.guard() + text.format(self.target(to)))

    def carry(self, bits: int) -> None:
        """A sum or difference in two words, joined by the carry."""
        chooser = self.random
        name = chooser.choice(("add", "sub"))
        low, high = self.target(bits), self.target(bits)
        self.emit(f"{name}.cc.u{bits} {low}, {self.some(bits)}, {self.operand(bits)};")
        last = chooser.choice(("0", self.operand(bits)))
        self.emit(f"{name}c.u{bits} {high}, {chooser.choice((last, self.some(bits)))}, {last};")

    def lanes(self) -> None:
        """Instructions in which lanes see one another."""
        chooser = self.random
        p = self.predicate()
        if chooser.random() < 0.5:
            vote = chooser.choice(("all", "any", "uni"))
            self.emit(f"vote.sync.{vote}.pred {self.predicate_target()}, {p}, 0xffffffff;")
            return
        a, out = self.some(32), self.target(32)
        self.emit(
            chooser.choice(
                (
                    f"vote.sync.ballot.b32 {out}, {p}, 0xffffffff;",
                    f"shfl.sync.idx.b32 {out}, {a}, {self.operand(32)}, 31, 0xffffffff;",
                    f"shfl.sync.bfly.b32 {out}, {a}, {chooser.choice((1, 2, 16))}, 31, -1;",
                    f"match.any.sync.b32 {out}, {a}, 0xffffffff;",
                    f"activemask.b32 {out};",
                    f"redux.sync.{chooser.choice(('add', 'min', 'max'))}.u32 {out}, {a}, -1;",
                )
            )
        )

    def compare(self) -> None:
        """A predicate from values, and perhaps from another predicate."""
        chooser = self.random
        bits = chooser.choice((32, 32, 32, 64, 16))
        sign = chooser.choice("us")
        name = chooser.choice(COMPARISONS)
        a, b = self.some(bits), self.operand(bits, 0.7)
        kind = chooser.random()
        if self.predicates and kind < 0.2:
            join = chooser.choice(("and", "or", "xor"))
            other = chooser.choice(("", "!")) + self.predicate()
            text = f"setp.{name}.{join}.{sign}{bits} {{}}, {a}, {b}, {other};"
        elif self.predicates and kind < 0.3:
            join = chooser.choice(("and", "or", "xor"))
            text = f"{join}.pred {{}}, {self.predicate()}, {self.predicate()};"
        elif self.predicates and kind < 0.34:
            text = f"not.pred {{}}, {self.predicate()};"
        else:
            text = f"setp.{name}.{sign}{bits} {{}}, {a}, {b};"
        self.emit(self.guard() + text.format(self.predicate_target()))

    def reduction(self, *, predicate: bool = False) -> str:
        """A barrier that combines a predicate of all threads of the block; its result."""
        chooser = self.random
        name = chooser.choice(("bar", "barrier", "bar.cta"))
        given = chooser.choice(("", "!")) + self.predicate()
        if predicate or chooser.random() < 0.6:
            target = self.predicate_target()
            self.emit(f"{name}.red.{chooser.choice(('and', 'or'))}.pred {target}, 0, {given};")
        else:
            target = self.target(32)
            self.emit(f"{name}.red.popc.u32 {target}, 0, {given};")
            if chooser.random() < 0.5:
                self.restrict(target, 32)
        return target

    def effect(self) -> None:
        """A store, an atomic operation or slow arithmetic that nothing depends on."""
        kind = self.random.random()
        if kind < 0.3:
            self.emit(f"{self.guard()}st.global.u32 {self.address()}, {self.some(32)};")
        elif kind < 0.5:
            name = self.target(32)
            self.emit(f"atom.global.add.u32 {name}, {self.address()}, {self.some(32)};")
        else:
            for _ in range(self.random.choice((1, 3))):
                self.emit("div.rn.f32 %f1, %f1, %f2;")


class LongWriter(Writer):
    """Data that make loops go round some thousand times."""

    few = (63, 255, 255, 1000, 4095, 30000)
