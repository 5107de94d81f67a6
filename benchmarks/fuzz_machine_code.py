"""Mutated cubins, fat binaries and listings: one diagnostic each, in bounded time and memory.

Kinds of cases, drawn in turn:

* ``file``: a cubin with bits flipped, ends cut, fields of its headers, sections, symbols and
  attributes replaced by what hurts; it is read, and listed too if nvdisasm is on the PATH.
* ``binary``: the same of fat binaries that hold them.
* ``listing``: what nvdisasm wrote of a whole cubin, with words and lines changed, doubled, left
  out; all that follows up to the program that analyses read is made of it.

A case must end in a program or in one diagnostic (PtxwcetError), and take no more than a second of
processor time beside nvdisasm's. What is listed must be the code of the file: each word is
compared. Run: python benchmarks/fuzz_machine_code.py --seconds 180 --seed 1
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import re
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ptxwcet.ir.kernel import UnreadKernel
from ptxwcet.sass import disassembler, reading
from ptxwcet.sass.containers import held_code
from ptxwcet.sass.elf import read_cubin
from ptxwcet.sass.listing import parse_listing
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.translation import translated_program
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

KEPT = Path(__file__).parents[1] / "tests" / "data" / "sass"
MOST_SECONDS = 1.0
"""Of processor time, for one case of a file of some thousand bytes."""

_NUMBERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 24, 63, 64, 65, 255, 2**16 - 1, 2**31, 2**32 - 1)
_LARGE = (2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 64)
_NASTY = (
    *("", " ", "\0", "\f", '"', "`(.L_x_0)", "R255", "R300", "RZ", "UR70", "P9", "!PT", "0x", "-"),
    *("c[0x0][0x160]", "c[0x9][R2]", "[", "]]", "desc[UR4][R2.64]", ".reuse", ";", "/*", "@P0"),
    *("1e400", "+INF ", "-QNAN", "|R2|", "~R3", "SR_TID.X", "B0", "SB9", "a" * 300, "((" * 50),
)
_TOKEN = re.compile(r"[\w.$]+|[^\w\s]")
_CODE_LINE = re.compile(r"/\*[0-9a-f]{4,16}\*/")


def kept_files() -> dict[str, bytes]:
    """The cubins that tests keep, by name."""
    return {path.name: path.read_bytes() for path in sorted(KEPT.glob("*.cubin"))}


def fat_binary(cubins: list[bytes]) -> bytes:
    """A fat binary of cubins, as nvcc writes it."""
    entries = b""
    for data in cubins:
        numbers = (2, 0x101, 64, len(data), 0, 0, 8, 1, 86, 0, 0, 0x11, 0, 0)
        entries += struct.pack("<HHIQIIHHIIIQQQ", *numbers) + data
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def number(rng: random.Random, data: bytes) -> int:
    """A number that hurts: of any size, or about the file's."""
    near = (len(data), len(data) - 1, len(data) + 1, rng.randrange(len(data) + 1))
    return rng.choice((*_NUMBERS, *_LARGE, *near))


def fields(data: bytes, rng: random.Random) -> tuple[int, int]:
    """Where a field of a header, section, symbol or attribute lies in a whole cubin, its bytes."""
    begin = struct.unpack_from("<Q", data, 40)[0]
    count = struct.unpack_from("<H", data, 60)[0]
    section = begin + 64 * rng.randrange(max(count, 1))
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(((4, 1), (16, 2), (18, 2), (40, 8), (48, 4), (58, 2), (60, 2), (62, 2)))
    if kind < 4 or section + 64 > len(data):
        return section + rng.choice((0, 4, 24, 32, 40, 44)), rng.choice((4, 8))
    place, size = struct.unpack_from("<QQ", data, section + 24)
    return min(place + 4 * rng.randrange(max(size // 4, 1)), len(data) - 8), rng.choice((1, 2, 4))


def changed_file(data: bytes, rng: random.Random) -> bytes:
    """A cubin with one to four changes."""
    whole = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        match rng.randrange(8):
            case 0:
                whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
            case 1 if len(whole) == len(data):
                return bytes(whole[: rng.randrange(len(whole))])
            case 2:
                at, size = rng.randrange(len(whole)), rng.randrange(1, 64)
                whole[at : at + size] = bytes([rng.choice((0, 255, rng.randrange(256)))]) * size
                del whole[len(data) :]
            case 3:
                begin = struct.unpack_from("<Q", data, 40)[0]
                one, other = (begin + 64 * rng.randrange(8) for _ in range(2))
                if max(one, other) + 64 <= len(whole):
                    whole[one : one + 64] = whole[other : other + 64]
            case _:
                at, size = fields(data, rng)
                if at + size <= len(whole):
                    value = number(rng, data) % 2 ** (8 * size)
                    whole[at : at + size] = value.to_bytes(size, "little")
    return bytes(whole)


def changed_text(text: str, rng: random.Random) -> str:
    """A listing with one to three changes."""
    lines = text.split("\n")
    for _ in range(rng.randint(1, 3)):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(8):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = "".join(rng.choice((one, one, one, "", "0")) for one in lines[at])
            case _:
                # the text of an instruction alone: its words are still those of the file
                body, comment, words = lines[at].rpartition(" ; ")
                tokens = list(_TOKEN.finditer(body, body.find("*/") + 2))
                if comment and tokens:
                    one = rng.choice(tokens)
                    others = [found.group() for found in _TOKEN.finditer(lines[other])]
                    new = rng.choice((*_NASTY, *others))
                    lines[at] = f"{body[: one.start()]}{new}{body[one.end() :]}{comment}{words}"
    return "\n".join(lines)


def read_file(data: bytes, *, lists: bool) -> None:
    """A cubin is read, and listed."""
    cubin = read_cubin("k.cubin", data)
    if lists and cubin.sections:
        source = reading.listed("k.cubin", data)
        require_code(source, {one.name: one.code for one in cubin.sections})
        read_listing(source)


def require_code(source: SourceFile, code: dict[str, bytes]) -> None:
    """The listing has the code of the file, whole and in order."""
    for section in parse_listing(source).sections:
        lines = [line for part in section.functions for line in part.lines]
        words = b"".join(line.word.to_bytes(16, "little") for line in lines)
        assert words == code[section.name], f"the listing of {section.name} is of other code"


def read_listing(source: SourceFile) -> int:
    """What a listing is made to; how many kernels cost an error of ours."""
    module = translated_program(read_program(source))
    unread = [one for one in module.kernels if isinstance(one, UnreadKernel)]
    return sum(one.failure.code == "PW901" for one in unread)


def cases(kind: str, rng: random.Random, *, lists: bool) -> Iterator[Callable[[], int | None]]:
    """Cases of a kind without end."""
    files = kept_files()
    texts = [path.read_text(encoding="utf-8") for path in sorted(KEPT.glob("*.sass"))]
    texts = [text for text in texts if len(text) < 40_000]
    while True:
        data = rng.choice(list(files.values()))
        if kind == "file":
            changed = changed_file(data, rng)
            yield lambda changed=changed: read_file(changed, lists=lists)  # type: ignore[misc]
        elif kind == "binary":
            whole = fat_binary([data, changed_file(data, rng)])
            for _ in range(rng.randrange(3)):
                at = rng.choice((rng.randrange(80), rng.randrange(len(whole))))
                whole = whole[:at] + rng.randbytes(rng.choice((1, 4, 8))) + whole[at + 1 :]
            whole = whole[: rng.choice((len(whole), rng.randrange(len(whole))))]
            yield lambda whole=whole: held_code("app", whole) and 0  # type: ignore[misc]
        else:
            text = changed_text(rng.choice(texts), rng)
            source = SourceFile("k.cubin", text)
            yield lambda source=source: read_listing(source)  # type: ignore[misc]


def outcome(case: Callable[[], int | None]) -> str:
    """What comes of a case: ``read``, a code, or what must not be."""
    begin = os.times()
    try:
        found = "read, but for a kernel that is refused with PW901" if case() else "read"
    except PtxwcetError as error:
        codes = {one.code for one in error.diagnostics}
        found = ", ".join(sorted(codes))
        if len(error.diagnostics) > 1 or not all(one.help for one in error.diagnostics):
            found = f"BAD: {len(error.diagnostics)} diagnostics, or one without a remedy: {found}"
    except BaseException as error:  # what was let through
        found = f"BAD: {type(error).__name__}: {str(error)[:80]}"
        if isinstance(error, KeyboardInterrupt):
            raise
    end = os.times()
    taken = end.user + end.system - begin.user - begin.system
    return f"BAD: {taken:.1f} s, {found}" if taken > MOST_SECONDS else found


def run(kinds: list[str], seed: int, seconds: float, most: int, *, lists: bool) -> int:
    """Runs cases of each kind in turn and prints what came of them; how many are bad."""
    bad = 0
    for kind in kinds:
        rng, counts = random.Random(f"{seed} {kind}"), collections.Counter[str]()
        until = time.monotonic() + seconds / len(kinds)
        for count, case in enumerate(cases(kind, rng, lists=lists)):
            if count == most or time.monotonic() > until:
                break
            counts[outcome(case)] += 1
        told = ", ".join(f"{found} {count:,}" for found, count in counts.most_common(12))
        bad += sum(count for found, count in counts.items() if found.startswith("BAD"))
        print(f"{kind}: {counts.total():,} cases: {told}")
    return bad


def main() -> int:
    """Exit code 1 if a case is bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cases", type=int, default=10**9, help="most of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=["file", "binary", "listing"])
    given = parser.parse_args()
    kinds = given.kind or ["file", "binary", "listing"]
    lists = shutil.which("nvdisasm") is not None
    disassembler.MOST_SECONDS = 5  # some files make it go on for ever
    bad = run(kinds, given.seed, given.seconds, given.cases, lists=lists)
    print(f"{bad} bad; listed by nvdisasm: {'yes' if lists else 'no'}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
