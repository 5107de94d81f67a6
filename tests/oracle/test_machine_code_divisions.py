"""Quotients that the translation says of machine code, against the code, executed.

The code computes them by a reciprocal, which the special function unit may have one unit in its
last place too large or too small: it is executed with each. Sequences that are changed in one
place are executed, too: where they leave something else, nothing may be said of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
import sass_execution
import sass_floats
from test_machine_code_execution import listed
from test_machine_code_translation import beside, broken
from translation_oracle import DIVISIONS

from ptxwcet.emulator.launch import Argument, EmulatedLaunch
from ptxwcet.ir.kernel import Instruction, Kernel, Module, UnreadKernel
from ptxwcet.sass import translation
from ptxwcet.sass.lowering import read_program
from ptxwcet.support.source import SourceFile

EDGES = [0, 1, 2, 3, 5, 7, 10, 1000, 0xFFFF, 0xAAAAAAAA]
EDGES += [(1 << k) + by for k in (8, 16, 22, 23, 24, 25, 30, 31, 32) for by in (-2, -1, 0, 1)]
OFF = {"one more": lambda x: off_by_one(x, np.inf), "one less": lambda x: off_by_one(x, -np.inf)}


def off_by_one(numbers: np.ndarray, to: float) -> np.ndarray:
    """Reciprocals of numbers of single precision, and their neighbours in that direction."""
    return np.nextafter(np.float32(1) / numbers.astype("f4"), np.float32(to)).astype(np.float64)


def numbers(seed: int, count: int) -> np.ndarray:
    """Edges, and random numbers of all lengths."""
    rng = np.random.default_rng(seed)
    long = rng.integers(0, 1 << 32, count, np.uint64) >> rng.integers(0, 32, count, np.uint64)
    found = np.where(rng.random(count) < 0.6, rng.choice(EDGES, count), long)
    return (found % (1 << 32)).astype("u4")


def launch_of(kernel: str, seed: int) -> EmulatedLaunch:
    a, b, out = numbers(seed, 256), numbers(seed + 50, 256), np.zeros(512, "u4")
    ones: dict[str, tuple[Argument, ...]] = {"others": (a, out, int(b[seed % len(b)]), 3)}
    return EmulatedLaunch((256, 1, 1), (1, 1, 1), ones.get(kernel, (a, b, out)))


def divisions(own: Kernel) -> list[Instruction]:
    """What a translated kernel says of quotients and remainders."""
    assert own.code is not None
    added = (own.instructions[index] for index in sorted(own.code.added))
    return [one for one in added if one.mnemonic in DIVISIONS]


@cache
def translated(listing: str) -> dict[str, Kernel]:
    return {one.name: translation.translated(one) for one in listed(listing).kernels}


SAID = {
    "unsigned_ones": {"div.u32", "rem.u32"},
    "signed_ones": {"div.u32", "rem.u32"},
    "others": {"div.u32"},  # the remainder is computed of it
    "divisor": {"rem.u32"},
}


@pytest.mark.parametrize("arch", [86, pytest.param(90, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("off", ["one less", pytest.param("one more", marks=pytest.mark.thorough)])
def test_quotients_are_said_and_are_those_of_the_code(
    off: str, arch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All divisions of the source."""
    monkeypatch.setitem(sass_floats.FUNCTIONS, "RCP", OFF[off])
    module = listed(f"divisions_{arch}")
    for number, kernel in enumerate(module.kernels):
        own = translated(f"divisions_{arch}")[kernel.name]
        assert {one.mnemonic for one in divisions(own)} == SAID[kernel.name]
        found = beside(kernel, module, launch_of(kernel.name, number), own)
        assert found.wrong == [], kernel.name
        assert found.checked > 80


# --- changed in one place -------------------------------------------------------------------------

_LINE = re.compile(r"(/\*\w+\*/ )(.*?)( ; /\* \w+ \*/)")


@cache
def right() -> tuple[list[str], int, int]:
    """The listing, and where the remainder of both numbers without sign is computed."""
    lines = listed("divisions_86").kernels[0].instructions[0].origin.source.text.splitlines()
    begin = lines.index(".section unsigned_ones")
    places = [n for n, one in enumerate(lines) if n > begin and "I2F.U32.RP" in one]
    end = next(n for n, one in enumerate(lines) if n > begin and " EXIT " in one and n > places[0])
    return lines, places[0], end


def changes() -> Iterator[tuple[int, str]]:
    """Lines, and others in their place: instructions left out, other registers, literals."""
    lines, begin, end = right()
    for place in range(begin, end):
        match = _LINE.fullmatch(lines[place])
        if match is None:
            continue
        text = match[2]
        others = ["NOP"]
        for one in re.finditer(r"\bR(\d+)\b", text):
            others += [f"{text[: one.start()]}R{to}{text[one.end() :]}" for to in (0, 5, 7, 9)]
        for one in re.finditer(r"\b0x[0-9a-f]+\b|@!?P\d |\bGE\b|\.U32\b|\b-|\bRZ\b", text):
            for to in ("0x1", "", "GT", "0x0", "0xffffffd"):
                others.append(text[: one.start()] + to + text[one.end() :])
        yield from ((place, f"{match[1]}{one}{match[3]}") for one in others if one != text)


def module_of(place: int, line: str) -> Module:
    lines, _, _ = right()
    text = "\n".join((*lines[:place], line, *lines[place + 1 :])) + "\n"
    return read_program(SourceFile("k.cubin", text))


def is_wrong(module: Module, seed: int) -> bool:
    """Whether something false is said, if anything is, of what can be executed."""
    kernel = next((one for one in module.kernels if one.name == "unsigned_ones"), None)
    if kernel is None or isinstance(kernel, UnreadKernel):
        return False
    own = translation.translated(kernel)
    try:
        return bool(divisions(own) and beside(kernel, module, launch_of("", seed), own).wrong)
    except (sass_execution.UncoveredError, AssertionError):  # code that nobody would execute
        return False


@pytest.mark.every(100)
@pytest.mark.parametrize("number", range(300))
def test_nothing_false_is_said_of_what_only_looks_so(number: int) -> None:
    for place, line in list(changes())[number::300]:
        assert not is_wrong(module_of(place, line), number), line


BREAKS = [
    ("_OFF_BY = (0, 1, 2)", "_OFF_BY = (0,)"),
    ("_UNITS = 0x0FFFFFFE", "_UNITS = 0x0FFFFFFD"),
    ("return times == 0 if", "return times != 0 if"),
    ('("div", _QUOTIENT), ("rem", _REMAINDER)', '("rem", _QUOTIENT), ("div", _REMAINDER)'),
    ("(begun.number, begun.divisor)", "(begun.divisor, begun.number)"),
    ("if name and self._held(name) is value", "if name"),
    ("and added is one.above(const(0, _BITS))", ""),
    ("== {_product", "!= {_product"),
    ("return one if truth else other", "return other if truth else one"),
    ("{(): -c}, 1)", "{(): c}, 1)"),
    ("holds = ~holds if guard.negated else holds", "pass"),
    ('"I2F.RP", "I2F.U32.RP"', '"I2F.U32.RP"'),
]


@pytest.mark.every(12)
@pytest.mark.parametrize(("text", "other"), BREAKS)
def test_a_break_is_seen(text: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something false is said, or not all that there is."""
    made = broken("divisions", text, other)
    monkeypatch.setattr(translation, "with_divisions", made.with_divisions)
    monkeypatch.setitem(sass_floats.FUNCTIONS, "RCP", OFF["one less"])
    module = listed("divisions_86")
    for number, kernel in enumerate(module.kernels):
        own = translation.translated(kernel)
        if {one.mnemonic for one in divisions(own)} != SAID[kernel.name]:
            return
        if beside(kernel, module, launch_of(kernel.name, number), own).wrong:
            return
    assert any(is_wrong(module_of(*one), number) for number, one in enumerate(changes()))
