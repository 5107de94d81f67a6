"""Random programs of integer PTX: every form in loops and branches, of data and of parameters.

Half of the registers begin as what each lane loads, half as parameters, which ptxas computes with
on the uniform datapath. All of them are stored in the end.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from instruction_forms import statements
from numpy.typing import NDArray

from ptxwcet.emulator.launch import EmulatedLaunch

LANES = 40
KEPT = {
    86: (5, 13, 39, 56, 62, 72, 73, 81, 89, 95, 97, 99, 105, 106, 114),
    90: (62, 78, 105),
}
"""Seeds of programs for an architecture that see each row altered, and most changes of builders."""
_COUNTS = {"h": 6, "r": 8, "d": 6, "p": 4}
_BYTES = {"h": 2, "r": 4, "d": 8}
_ROW = 256
_FLOATING = re.compile(
    r"\.(?:bf|tf|f|e)\d|%f|fns|isspacep|cvta|window|%[a-z]+\.|c\..*(?:sat|16)|x2|x4|word|table"
)
# carries; and ptxas loses the high half of what is there where the guard of the last does not hold
_UNGUARDED = re.compile(r"\.cc\b|^(?:add|sub|mad)c|^set\..*[us]16")
_HEAD = ".version 9.0\n.target sm_80\n.address_size 64\n"
_REGISTERS = ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %d<40>;\n"


def integer_statements() -> list[str]:
    """The forms that compute with integers alone."""
    return [one for one in statements() if not _FLOATING.search(one) and "%" in one.split()[1]]


def taken(pool: Sequence[str], folder: Path) -> list[str]:
    """Those that ptxas takes for the oldest architecture."""
    file = folder / "taken.ptx"
    head = f"{_HEAD}.visible .entry k()\n{{\n{_REGISTERS}"
    file.write_text(head + "\n".join(pool) + "\nret;\n}\n")
    command = ["ptxas", "-arch=sm_80", str(file), "-o", str(folder / "taken.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    refused = {int(line) for line in re.findall(r"line (\d+); error", said)}
    before = head.count("\n") + 1
    return [one for number, one in enumerate(pool) if number + before not in refused]


def program(seeds: Iterable[int], pool: Sequence[str]) -> str:
    """A file with a kernel of each seed, named after it."""
    kernels = (_Kernel(random.Random(seed), pool).text(f"k{seed}") for seed in seeds)
    return _HEAD + "".join(kernels)


class _Kernel:
    def __init__(self, draw: random.Random, pool: Sequence[str]) -> None:
        self.draw, self.pool = draw, pool
        self.lines: list[str] = []
        self.labels = 0

    def text(self, name: str) -> str:
        self.prologue(name)
        self.part(8)
        for _ in range(self.draw.choice((1, 1, 2))):
            self.draw.choice((self.loop, self.branch, self.branch))()
            self.part(3)
        self.epilogue()
        parameters = "".join(f", .param .u64 {name}_p{n}" for n in range(4))
        head = f".visible .entry {name}(.param .u64 {name}_in, .param .u64 {name}_out{parameters})"
        return f"{head}\n{{\n{_REGISTERS}" + "\n".join(self.lines) + "\nret;\n}\n"

    def prologue(self, name: str) -> None:
        self.lines += [
            f"ld.param.u64 %d30, [{name}_in];",
            f"ld.param.u64 %d31, [{name}_out];",
            "mov.u32 %r30, %tid.x;",
            f"mad.wide.u32 %d32, %r30, {_ROW}, %d30;",
            f"mad.wide.u32 %d33, %r30, {_ROW}, %d31;",
        ]
        for letter, bits in (("h", 16), ("r", 32), ("d", 64)):
            for number in range(1, _COUNTS[letter] + 1):
                one = f"%{letter}{number}"
                if self.draw.random() < 0.5:
                    place = 8 * (number - 1) + {"h": 4, "r": 64, "d": 128}[letter]
                    self.lines.append(f"ld.global.u{bits} {one}, [%d32+{place}];")
                else:
                    place = f"[{name}_p{self.draw.randrange(4)}]"
                    self.lines.append(f"ld.param.u{bits} {one}, {place};")
        for number in range(1, _COUNTS["p"] + 1):
            kind = self.draw.choice(("s32", "u32"))
            test = f"setp.{self.draw.choice(('lt', 'ne', 'ge'))}.{kind}"
            self.lines.append(f"{test} %p{number}, %r{number}, %r{number + 1};")

    def epilogue(self) -> None:
        place = 0
        for letter in ("d", "r", "h"):
            for number in range(1, _COUNTS[letter] + 1):
                bits = 8 * _BYTES[letter]
                self.lines.append(f"st.global.u{bits} [%d33+{place}], %{letter}{number};")
                place += 8
        for number in range(1, _COUNTS["p"] + 1):
            self.lines.append(f"selp.u32 %r20, 1, 0, %p{number};")
            self.lines.append(f"st.global.u32 [%d33+{place}], %r20;")
            place += 8

    def part(self, count: int) -> None:
        for _ in range(count):
            text = self.draw.choice(self.pool)
            *before, last = self.renamed(text).split("\n")
            guard = f"@{self.draw.choice(('', '!'))}%p{self.draw.randint(1, 4)} "
            is_guarded = self.draw.random() < 0.15 and not _UNGUARDED.search(text)
            self.lines += [*before, (guard if is_guarded else "") + last]

    def renamed(self, text: str) -> str:
        """Other registers, at times a literal in the place of a last one; no divisor is 0."""
        used = set[str]()

        def name(found: re.Match[str]) -> str:
            letter = found[1]
            one = f"%{letter}{self.draw.randint(1, _COUNTS[letter])}"
            while found[2] in "04" and one in used:  # two targets differ
                one = f"%{letter}{self.draw.randint(1, _COUNTS[letter])}"
            used.update([one] if found[2] in "04" else [])
            return one

        made = re.sub(r"%([hrdp])(\d)", name, text)
        if text.startswith(("addc", "subc", "madc")):
            letter, bits = ("d", 64) if "64" in text.split()[0] else ("r", 32)
            one, other = (f"%{letter}{self.draw.randint(1, _COUNTS[letter])}" for _ in "12")
            first = "sub" if text.startswith("subc") else "add"
            return f"{first}.cc.u{bits} %{letter}20, {one}, {other};\n{made}"
        if text.startswith(("bfe.", "bfi.")):  # more than 255 is not determined
            few = made.rstrip(";").split(", ")[-2:]
            return "\n".join([*(f"and.b32 {one}, {one}, 255;" for one in few), made])
        if text.startswith(("div", "rem")):
            divisor = made.rstrip(";").split(", ")[-1]
            bits = {"h": 16, "r": 32, "d": 64}[divisor[1]]
            return f"or.b{bits} {divisor}, {divisor}, {self.draw.choice((1, 4, 3))};\n{made}"
        return made

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def branch(self) -> None:
        other, end = self.label(), self.label()
        self.lines.append(f"@%p{self.draw.randint(1, 4)} bra {other};")
        self.part(3)
        self.lines += [f"bra {end};", f"{other}:"]
        self.part(3)
        self.lines.append(f"{end}:")

    def loop(self) -> None:
        begin = self.label()
        self.lines += [f"and.b32 %r25, %r{self.draw.randint(1, 8)}, 7;", f"{begin}:"]
        self.part(4)
        step, test = self.draw.choice(
            (
                ("sub.s32 %r25, %r25, 1;", "setp.gt.s32 %p8, %r25, 0;"),
                ("add.u32 %r25, %r25, 3;", "setp.lt.u32 %p8, %r25, 11;"),
                ("shr.u32 %r25, %r25, 1;", "setp.ne.u32 %p8, %r25, 0;"),
            )
        )
        self.lines += [step, test, f"@%p8 bra {begin};"]


def launch(seed: int) -> EmulatedLaunch:
    """A launch of such a kernel, with numbers at the edges."""
    draw = random.Random(seed)
    edges = (0, 1, 2, 5, 31, 32, 33, 63, 64, 127, 128, 255, 256, 1 << 15, 1 << 16, 1 << 31, 1 << 32)

    def number() -> int:
        kind = draw.random()
        if kind < 0.4:
            return draw.getrandbits(draw.choice((4, 16, 32, 64)))
        return (draw.choice((1, -1)) * draw.choice(edges) + draw.choice((-1, 0, 0, 1))) % (1 << 64)

    rows = LANES * _ROW // 8
    data: NDArray[np.uint64] = np.array([number() for _ in range(rows)], np.uint64)
    arguments = (data, np.zeros(rows, np.uint64), *(number() for _ in range(4)))
    return EmulatedLaunch((LANES, 1, 1), (1, 1, 1), arguments)


if __name__ == "__main__":  # what tests/data/sass/build.sh keeps for an architecture
    with TemporaryDirectory() as folder:
        forms = taken(integer_statements(), Path(folder))
    print(end=program(KEPT[int(sys.argv[1])], forms))
