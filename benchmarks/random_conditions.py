"""Random PTX for what the plain writer seldom makes: conditions that are decided though a number is
unknown, what lanes see of one another in partial warps, and numbers of several parts.
"""

from __future__ import annotations

from random_statements import COMPARISONS, Writer


class DecidedWriter(Writer):
    """Comparisons that a type, a mask or a remainder decides, or nearly, and chains of outcomes."""

    def guard(self) -> str:
        """A guard for one of three instructions."""
        if not self.predicates or self.random.random() < 0.65:
            return ""
        return f"@{self.random.choice(('', '!'))}{self.random.choice(self.predicates)} "

    def compare(self) -> None:
        """A predicate: of a number that is unknown, or of other predicates."""
        if not self.predicates or self.random.random() < 0.5:
            self.decided()
        elif self.random.random() < 0.85:
            self.chained()
        else:
            super().compare()

    def either(self) -> str:
        """A predicate to be read by an instruction that may negate it."""
        return self.random.choice(("", "", "!")) + self.predicate()

    def outcome(self, text: str, *, joins: bool = True) -> None:
        """Writes a comparison, perhaps of both outcomes, perhaps joined with a predicate.

        ``text`` has places for what is behind the comparison's name and for the target.
        """
        chooser = self.random
        join, other = "", ""
        if joins and self.predicates and chooser.random() < 0.35:
            join, other = f".{chooser.choice(('and', 'or', 'xor'))}", f", {self.either()}"
        guard = self.guard()
        target = self.predicate_target()
        if chooser.random() < 0.4:
            second = self.predicate_target()
            if second != target:
                target += f"|{second}"
        self.emit(guard + text.format(join, target) + other + ";")

    def decided(self) -> None:
        """A comparison at an end of what a number may be."""
        chooser = self.random
        bits = chooser.choice((32, 32, 32, 64, 16))
        sign, name = chooser.choice("us"), chooser.choice(COMPARISONS)
        source, low, high = self.ranged(bits)
        end = chooser.choice((low, high)) + chooser.choice((-1, 0, 0, 1))
        least = 0 if sign == "u" else -1 << bits - 1
        end = (end - least) % (1 << bits) + least
        if chooser.random() < 0.25:
            word = self.new(bits)
            self.emit(f"mov.b{bits} {word}, {end};")
            source, end_text = (word, source) if chooser.random() < 0.5 else (source, word)
        else:
            end_text = str(end)
        self.outcome(f"setp.{name}{{}}.{sign}{bits} {{}}, {source}, {end_text}")

    def ranged(self, bits: int) -> tuple[str, int, int]:
        """A register and the numbers that it may hold, as far as is known."""
        chooser = self.random
        name, kind = self.new(bits), chooser.randrange(12)
        whole = self.some(bits)
        if chooser.random() < 0.5:
            whole = self.new(bits)
            self.emit(f"ld.global.u{bits} {whole}, {self.address()};")
        few = chooser.choice((1, 3, 7, 15, 255))
        size = 1 << bits
        if kind == 0:
            return whole, *chooser.choice(((0, size - 1), (-size // 2, size // 2 - 1)))
        if kind == 1:
            self.emit(f"and.b{bits} {name}, {whole}, {few};")
            return name, 0, few
        if kind == 2:
            narrow = chooser.choice((8, 8, 16))
            self.emit(f"ld.global.{chooser.choice('ub')}{narrow} {name}, {self.address()};")
            return name, 0, (1 << narrow) - 1
        if kind == 3:
            self.emit(f"ld.global.s8 {name}, {self.address()};")
            return name, -128, 127
        if kind == 4:
            self.emit(f"rem.u{bits} {name}, {whole}, {few};")
            return name, 0, few - 1
        if kind == 5:
            self.emit(f"rem.s{bits} {name}, {whole}, {few};")
            return name, 1 - few, few - 1
        if kind == 6:
            amount = chooser.choice((1, bits - 4, bits - 1))
            self.emit(f"shr.u{bits} {name}, {whole}, {amount};")
            return name, 0, (size >> amount) - 1
        if kind == 7:
            amount = chooser.choice((1, bits - 4, bits - 1))
            self.emit(f"shr.s{bits} {name}, {whole}, {amount};")
            return name, -(size >> amount + 1), (size >> amount + 1) - 1
        if kind == 8:
            yes, no = chooser.randrange(4), chooser.randrange(4)
            self.emit(f"selp.b{bits} {name}, {yes}, {no}, {self.predicate_or_new()};")
            return name, min(yes, no), max(yes, no)
        if kind == 9 and bits > 16:
            word = self.new(32)
            self.emit(f"{chooser.choice(('popc', 'clz'))}.b{bits} {word}, {whole};")
            self.emit(f"mov.b32 {name}, {word};" if bits == 32 else f"cvt.u64.u32 {name}, {word};")
            return name, 0, bits
        if kind == 10:
            self.emit(f"max.s{bits} {name}, {whole}, {-few};")
            self.emit(f"min.s{bits} {name}, {name}, {few};")
            return name, -few, few
        self.emit(f"or.b{bits} {name}, {whole}, {few};")
        return name, few, size - 1

    def predicate_or_new(self) -> str:
        """A predicate to be read; of data if there is none yet."""
        if not self.predicates:
            word, found = self.new(32), self.new(1)
            self.load(word, 32)
            self.emit(f"setp.ne.u32 {found}, {word}, 0;")
            self.predicates.append(found)
        return self.random.choice(self.predicates)

    def chained(self) -> None:
        """A predicate from others, or one that goes through a number."""
        chooser = self.random
        kind = chooser.random()
        guard = self.guard()
        one, two, three = self.predicate(), self.predicate(), self.predicate()
        if kind < 0.2:
            self.emit(f"{guard}not.pred {self.predicate_target()}, {one};")
        elif kind < 0.5:
            form = chooser.choice(("and", "or", "xor"))
            self.emit(f"{guard}{form}.pred {self.predicate_target()}, {one}, {two};")
        elif kind < 0.6:
            self.emit(f"{guard}mov.pred {self.predicate_target()}, {one};")
        elif kind < 0.85:
            word = self.new(32)
            yes, no = chooser.choice(((1, 0), (0, 1), (-1, 0), (3, 2), (2, 2)))
            self.emit(f"selp.b32 {word}, {yes}, {no}, {one};")
            if chooser.random() < 0.4:
                form = chooser.choice(("and", "or", "xor", "add"))
                kind_of = "u32" if form == "add" else "b32"
                self.emit(f"@{two} {form}.{kind_of} {word}, {word}, {chooser.choice((1, -1, 2))};")
            name = chooser.choice(COMPARISONS)
            self.outcome(
                f"setp.{name}{{}}.{chooser.choice('us')}32 {{}}, {word}, {chooser.randrange(-1, 3)}"
            )
        elif kind < 0.93:
            word = self.new(32)
            self.emit(
                f"set.{chooser.choice(COMPARISONS)}.and.u32.{chooser.choice('us')}32 {word}, "
                f"{self.some(32)}, {chooser.choice((0, -1, 7))}, {self.either()};"
            )
            self.outcome(f"setp.ne{{}}.s32 {{}}, {word}, 0")
        else:
            word = self.new(32)
            self.emit(f"@{one} mov.u32 {word}, 1;")
            self.emit(f"@!{one} mov.u32 {word}, 0;")
            self.emit(f"@{three} mov.u32 {word}, {chooser.randrange(3)};")
            self.outcome(f"setp.{chooser.choice(COMPARISONS)}{{}}.u32 {{}}, {word}, 1")


class ExchangeWriter(Writer):
    """Votes, matches, reductions and reads of other lanes, by all lanes or by some."""

    def compute(self) -> None:
        if self.random.random() < 0.5:
            self.lanes()
        elif self.random.random() < 0.3:
            self.place()
        else:
            super().compute()

    def place(self) -> None:
        """Where a lane is."""
        names = ("%tid.x", "%tid.y", "%tid.z", "%laneid", "%warpid", "%lanemask_lt", "%lanemask_eq")
        self.emit(f"mov.u32 {self.target(32)}, {self.random.choice(names)};")

    def members(self) -> str:
        """A mask of lanes: all, some, those that are there, any."""
        chooser = self.random
        kind = chooser.random()
        if kind < 0.5:
            return chooser.choice(("-1", "0xffffffff"))
        if kind < 0.65:
            return str(chooser.choice((0x1, 0x3, 0x1F, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFE)))
        if kind < 0.7:
            return self.some(32)
        name = self.new(32)
        self.emit(f"activemask.b32 {name};")
        if kind < 0.8:
            self.emit(f"vote.sync.ballot.b32 {name}, {self.predicate()}, {name};")
        return name

    def lanes(self) -> None:
        """An instruction in which lanes see one another, and perhaps a branch's condition of it."""
        chooser = self.random
        members, source = self.members(), self.some(32)
        kind = chooser.random()
        target = self.target(32)
        if kind < 0.35:
            mode = chooser.choice(("idx", "idx", "idx", "up", "down", "bfly"))
            distance = chooser.choice(
                (str(chooser.randrange(34)), "0", "31", self.some(32), self.some(32))
            )
            clamp = chooser.choice(("31", "31", "31", "0", "7967", "6175"))
            found = self.predicate_target() if chooser.random() < 0.35 else ""
            both = f"{target}|{found}" if found else target
            self.emit(
                f"{self.guard()}shfl.sync.{mode}.b32 {both}, {source}, {distance}, {clamp}, "
                f"{members};"
            )
        elif kind < 0.6:
            given = chooser.choice(("", "!")) + self.predicate()
            if chooser.random() < 0.5:
                form = chooser.choice(("all", "any", "uni"))
                name = self.predicate_target()
                self.emit(f"{self.guard()}vote.sync.{form}.pred {name}, {given}, {members};")
                return
            self.emit(f"{self.guard()}vote.sync.ballot.b32 {target}, {given}, {members};")
        elif kind < 0.75:
            if chooser.random() < 0.5:
                self.emit(f"{self.guard()}match.any.sync.b32 {target}, {source}, {members};")
            else:
                name = self.predicate_target()
                self.emit(f"match.all.sync.b32 {target}|{name}, {source}, {members};")
        elif kind < 0.9:
            self.reduce(target, source, members)
            return
        else:
            self.emit(f"{self.guard()}activemask.b32 {target};")
        if chooser.random() < 0.5:
            form = chooser.choice(
                ("popc.b32 {0}, {0};", "and.b32 {0}, {0}, 1;", "clz.b32 {0}, {0};")
            )
            self.emit(form.format(target))

    def reduce(self, target: str, source: str, members: str) -> None:
        """A reduction, mostly of numbers with a known end and compared with it."""
        chooser = self.random
        form, of = chooser.choice(
            (("add", "u32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("xor", "b32"))
        )
        guard = self.guard()
        if chooser.random() < 0.3:
            self.emit(f"{guard}redux.sync.{form}.{of} {target}, {source}, {members};")
            return
        end = chooser.choice((1, 7, 255))
        few = self.new(32)
        self.emit(f"and.b32 {few}, {source}, {end};")
        if chooser.random() < 0.5:
            self.emit(f"mov.u32 {target}, {few};")
        self.emit(f"{guard}redux.sync.{form}.{of} {target}, {few}, {members};")
        most = 32 * end if form == "add" else end
        self.emit(f"{guard}setp.gt.u32 {self.predicate_target()}, {target}, {most};")


class PartsWriter(Writer):
    """Numbers in two registers or in half of one: carries, products, loads of other widths."""

    def compute(self) -> None:
        if self.random.random() < 0.6:
            self.parts()
        else:
            super().compute()

    def parts(self) -> None:
        """One instruction on numbers of several parts, or a few that belong together."""
        chooser = self.random
        guard, kind = self.guard(), chooser.randrange(9)
        if kind == 0:
            low, high = self.target(32), self.target(32)
            if low != high:
                self.emit(f"{guard}mov.b64 {{{low}, {high}}}, {self.some(64)};")
        elif kind == 1:
            self.emit(f"{guard}mov.b64 {self.target(64)}, {{{self.some(32)}, {self.some(32)}}};")
        elif kind == 2:
            self.emit(f"{guard}mov.b32 {self.target(32)}, {{{self.some(16)}, {self.some(16)}}};")
        elif kind == 3:
            self.emit(
                f"{guard}{chooser.choice(('mul', 'mul'))}.wide.{chooser.choice('us')}32 "
                f"{self.target(64)}, {self.some(32)}, {self.operand(32)};"
            )
        elif kind == 4:
            self.emit(
                f"{guard}mad.wide.{chooser.choice('us')}32 {self.target(64)}, {self.some(32)}, "
                f"{self.operand(32)}, {self.some(64)};"
            )
        elif kind == 5:
            self.long_sum(guard)
        elif kind == 6:
            a, b, sign = self.some(32), self.operand(32), chooser.choice("us")
            if b not in ("0", "-0"):
                self.emit(f"{guard}div.{sign}32 {self.target(32)}, {a}, {b};")
                self.emit(f"{guard}rem.{sign}32 {self.target(32)}, {a}, {b};")
        elif kind == 7:
            bits = chooser.choice((16, 32, 64))
            size = chooser.choice([one for one in (8, 16, 32) if one <= bits])
            name = self.target(bits)
            self.emit(f"{guard}ld.global.{chooser.choice('usb')}{size} {name}, {self.address()};")
        else:
            one, two = self.target(32), self.target(32)
            if one != two:
                self.offset += 8
                self.emit(f"{guard}ld.global.v2.u32 {{{one}, {two}}}, [%own+{self.offset}];")

    def long_sum(self, guard: str) -> None:
        """A sum, difference or product in two words or three."""
        chooser = self.random
        name = chooser.choice(("add", "sub", "mad"))
        if name == "mad":
            a, b = self.some(32), self.some(32)
            self.emit(f"{guard}mad.lo.cc.u32 {self.target(32)}, {a}, {b}, {self.some(32)};")
            self.emit(f"madc.hi.u32 {self.target(32)}, {a}, {b}, {self.operand(32)};")
            return
        words = [self.target(32) for _ in range(chooser.choice((2, 3)))]
        self.emit(f"{guard}{name}.cc.u32 {words[0]}, {self.some(32)}, {self.operand(32)};")
        for place, word in enumerate(words[1:]):
            last = ".cc" if place < len(words) - 2 else ""
            second = chooser.choice(("0", "-1", self.some(32)))
            self.emit(f"{self.guard()}{name}c{last}.u32 {word}, {self.some(32)}, {second};")
