"""Random constants and straight-line code, against what ptxas folds them to.

The second opinion is the cubin. Initialisers are read from its sections. Immediates, offsets and
straight-line programs are compared as programs: ptxas makes the same code of the text and of
another one in which *our* value is spelled as one plain literal.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))

import contextlib

from cubin import PTXAS, assemble, relocations, sections, variables
from ptx_printer import print_module

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.emulator.layout import initial_bytes
from ptxwcet.ir.operands import Address, Element, Immediate, SymbolRef, Vector
from ptxwcet.methods.instrument.rewriting import instrument_module
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
ENTRY = """.visible .global .align 8 .u64 g[65536]; .const .align 8 .u64 c[4096];
.shared .align 8 .u64 s[512];
.visible .entry k(.param .u64 p)
{
.local .align 8 .u64 l[512];
.reg .b64 %q<99>; .reg .b32 %w<99>; .reg .pred %c<9>;
.reg .f64 %d<99>; .reg .f32 %f<99>;
ld.param.u64 %q0, [p];
"""
EDGES = (0, 1, 2, 3, 5, 7, 31, 32, 63, 64, 255, 4095, 1 << 31, (1 << 31) - 1, (1 << 32) - 1,
         1 << 32, (1 << 62) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
SPELLINGS = ("{}", "{}U", "{:#x}", "{:#x}U", "{:#b}", "0{:o}", "0X{:X}")
BINARY = ("+", "-", "*", "/", "% ", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=",
          "&&", "||")  # fmt: skip
LARGE = ("-1 / 9U", "~5", "-1 / 4611686018427387904U", "1 << 63", "0xFFFFFFFFFFFFFFFF", "-1U",
         "~0U >> 1", "1 - 2U", "9223372036854775808 >> 1", "0b1" + "0" * 63,
         "-9223372036854775808", "(.u64)-7", "~0 - 1")  # fmt: skip
SMALL = ("5", "-5", "- 5", "-(5)", "-((5))", "-\n5", "-/**/5", "+5", "--5", "-+5", "-(5U)", "5U",
         "-(0x5)", "-(0b101U)", "-WARP_SZ", "017", "-017", "017U", "00", "0x1F", "0XfU", "0b101",
         "0B11", "(~0 > 5) ? 8 : 3", "(-1 < 1U) ? 3 : 8", "(-1 < 1) ? 3 : 8", "(-1 <= 1U) ? 3 : 8",
         "(~0 >= 5) ? 8 : 3", "(~(0) == -1) ? 8 : 3", "(-1 != 18446744073709551615) ? 3 : 8",
         "-7 / 2", "7 / -2", "-1 %  1000", "7 % -2 & 15", "~0 >> 60", "-1 >> 60", "-16 >> 2",
         "-1U >> 60", "1 << 66", "-1 << 3", "-3 << 64", "!5", "!0", "!!7", "~(-6)", "~~5",
         "2 + 3 * 4", "(2 + 3) * 4", "20 - 5 - 3", "64 / 4 / 2", "1 | 6 ^ 3 & 5", "(1 | 6) ^ 3",
         "1 << 2 + 3", "16 >> 1 - 1", "4 == 4 < 2 ", "3 < 2 < 1", "1 & 3 == 3", "2 | 1 && 0",
         "1 || 0 && 0", "0 ? 1 : 2 | 4", "1 ? 0 ? 5 : 6 : 7", "0 ? 5 : 0 ? 6 : 7", "1 | 0 ? 5 : 6",
         "(.s64)-7", "(.u64)7", "(.s64)(1U)", "((.u64)-1 > 1) ? 8 : 3",
         "((.s64)(-1U) > 1) ? 8 : 3", "-2 * -3", "1 - 2 + 3", "5 > 3", "3 >= 4", "-2 ^ 3",
         "-2 & 7", "-8 | 3", "9 % 5", "0 || 7", "3 && 0", "2 - -2", "7 == 8", "7 != 8",
         "((-16 >> 2U) < 0) ? 8 : 3", "((1U << 1) > -1) ? 8 : 3",
         "((1 << 1U) > -1) ? 8 : 3", "5 <= 5", "5 >= 5",
         "(18446744073709551615 > 1) ? 8 : 3")  # fmt: skip
FLOATS = ("1.5", "-1.5", "-(1.5)", "- 1.5", "+.25", "3.", "1e5", "-2.5E-3", "0.1", "16777217.0",
          "0d3FF8000000000000", "-(0d3FF8000000000000)", "0dC000000000000001",
          "0d8000000000000000", "0d7FF8000000000000", "1.5 + 2.5 * 2.0", "1.5 - 2.25 - 1.0",
          "9.0 / 2.0 / 3.0", "-(1.5 - 2.0)", "0d7FF0000000000000")  # fmt: skip
HEX_FLOATS = ("0f3FC00000", "0fBFC00000", "0F3f800000", "0f00000001", "0f80000000", "0f7FC00001",
              "0f7F800000")  # fmt: skip
UNARY = ("-", "- ", "+", "~", "!", "-\n", "(.s64)", "(.u64) ")


@dataclass(slots=True)
class Folded:
    """How many cases were compared, refused by ptxas or by us, and what differed."""

    compared: int = 0
    refused_by_both: int = 0
    refused_by_us: list[str] = field(default_factory=list)
    refused_by_ptxas: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    not_folded: int = 0

    def add(self, case: str, theirs: object, ours: object) -> None:
        """Notes a case; None is a refusal."""
        if theirs is None and ours is None:
            self.refused_by_both += 1
        elif ours is None:
            self.refused_by_us.append(case)
        elif theirs is None:
            self.refused_by_ptxas.append(case)
        elif theirs == ours:
            self.compared += 1
        else:
            self.different.append(f"{case}: ptxas {theirs!r}, here {ours!r}")


def integer(draw: random.Random, depth: int) -> str:
    """A random constant expression of integers."""
    kind = draw.random()
    if depth <= 0 or kind < 0.15:
        if draw.random() < 0.05:
            return "WARP_SZ"
        value = draw.choice(EDGES) if draw.random() < 0.7 else draw.getrandbits(draw.randint(1, 64))
        return draw.choice(SPELLINGS).format(value)
    if kind < 0.35:
        inner = integer(draw, depth - 1)
        return draw.choice(UNARY) + (inner if draw.random() < 0.3 else f"({inner})")
    if kind < 0.42:
        return "({} ? {} : {})".format(*(integer(draw, depth - 1) for _ in range(3)))
    left, right = integer(draw, depth - 1), integer(draw, depth - 1)
    text = f"{left} {draw.choice(BINARY)} {right}"
    return text if draw.random() < 0.3 else f"({text})"


def floating(draw: random.Random, depth: int) -> str:
    """A random constant expression of floats."""
    kind = draw.random()
    if depth <= 0 or kind < 0.3:
        number = draw.choice(("1.5", ".25", "3.", "1e5", "2.5E-3", "0.1", "16777217.0", "0.0"))
        return f"0d{draw.getrandbits(63):016X}" if draw.random() < 0.2 else number
    if kind < 0.5:
        return draw.choice("+-") + f"({floating(draw, depth - 1)})"
    return f"({floating(draw, depth - 1)} {draw.choice('+-*/')} {floating(draw, depth - 1)})"


def assembled(text: str) -> list[tuple[str, bytes]] | None:
    """The compared sections of the cubin of a text, None if ptxas refuses it."""
    data = _cubin(text)
    if data is None:
        return None
    return sorted((sections(data) + relocations(data)).elements())


def _cubin(text: str) -> bytes | None:
    with tempfile.TemporaryDirectory() as folder:
        data = assemble(text, Path(folder), "k")
    return None if isinstance(data, str) else data


def initialisers(declarations: Sequence[str], found: Folded, space: str = "global") -> None:
    """Each declaration of ``x`` against the bytes of the cubin; refused ones are halved out."""
    if not declarations:
        return
    renamed = [re.sub(r"\bx\b", f"x{n}", text) for n, text in enumerate(declarations)]
    whole = _their_bytes(renamed, space)
    if whole is None and len(declarations) > 1:
        half = len(declarations) // 2
        initialisers(declarations[:half], found, space)
        initialisers(declarations[half:], found, space)
        return
    ours = [_ours(text, space) for text in renamed]
    if whole is None:
        found.add(declarations[0], None, ours[0])
        return
    for text, mine, theirs in zip(declarations, ours, whole, strict=True):
        found.add(text, theirs, mine)


def _their_bytes(declarations: Sequence[str], space: str) -> list[bytes] | None:
    """The bytes of each variable, in the order of the declarations; None if ptxas refuses one."""
    data = _cubin(HEAD + "".join(f".visible .{space} {text};\n" for text in declarations))
    if data is None:
        return None
    found = variables(data)
    return [found[f"x{n}"] for n in range(len(declarations))]


def _ours(text: str, space: str) -> bytes | None:
    """The emulator's bytes, of the text and of what the printer makes of it."""
    try:
        module = parse_module(SourceFile("k.ptx", f"{HEAD}.{space} {text};\n"))
        again = parse_module(SourceFile("k.ptx", print_module(module)))
        first, second = initial_bytes(module.variables[0]), initial_bytes(again.variables[0])
    except PtxwcetError:
        return None
    assert first == second, text
    return first


def immediates(
    statements: Sequence[tuple[str, str]], found: Folded, instruments: bool = False
) -> None:
    """Statements ``(before, expression)``, whose text ends with the expression: ``...;`` follows.

    The program of the text, of the printed module and of plain literals is one to ptxas; so are
    those that ``instrument`` makes of the first and the last, if that is asked.
    """
    lines = [_line(n, before, text) for n, (before, text) in enumerate(statements)]
    theirs = assembled(_program(lines))
    module = None
    with contextlib.suppress(PtxwcetError):
        module = parse_module(SourceFile("k.ptx", _program(lines)))
    if (theirs is None or module is None) and len(statements) > 1:
        half = len(statements) // 2
        immediates(statements[:half], found, instruments)
        immediates(statements[half:], found, instruments)
        return
    if theirs is None or module is None:
        found.add(statements[0][1], theirs and 1, module and 1)
        return
    instructions = [one for one in module.kernels[0].instructions[1:-1] if _is_probe(one.mnemonic)]
    plain = [
        _line(n, before, _plain(instruction.operands[-1]))
        for n, ((before, _), instruction) in enumerate(zip(statements, instructions, strict=True))
    ]
    others = [(_program(plain), theirs), (print_module(module), theirs)]
    if instruments:
        text = instrumented(_program(lines))
        others.append((text, assembled(instrumented(_program(plain)))))
    for other, wanted in others:
        if wanted is not None and assembled(other) == wanted:
            continue
        if len(statements) > 1:
            half = len(statements) // 2
            immediates(statements[:half], found, instruments)
            immediates(statements[half:], found, instruments)
            return
        found.different.append(f"{statements[0]}: here {plain[0]!r}")
        return
    found.compared += len(statements)


def instrumented(text: str) -> str:
    """What ``instrument`` makes of a kernel."""
    module = parse_module(SourceFile("k.ptx", text))
    return instrument_module(module, module.kernels).text


def _is_probe(mnemonic: str) -> bool:
    return mnemonic.startswith(("mov", "ld"))


def _line(number: int, before: str, text: str) -> str:
    kind = before.partition(" ")[0].rpartition(".")[2]
    register = before.partition(" ")[2].split(",")[0]
    close = "]" if "[" in before else "}" if "{" in before else ""
    return f"{before}{text}{close}; st.global.{kind} [%q0+{8 * number}], {register};"


def _program(lines: Sequence[str]) -> str:
    return HEAD + ENTRY + "\n".join(lines) + "\nret;\n}\n"


def _plain(operand: object) -> str:
    """Our value as one literal."""
    if isinstance(operand, Element):
        return _plain(operand.index)
    if isinstance(operand, Vector):
        return _plain(operand.elements[-1])
    if isinstance(operand, Address) and isinstance(operand.base, Immediate):
        return _plain(operand.base)
    if isinstance(operand, Address | SymbolRef):
        return str(operand.offset)
    assert isinstance(operand, Immediate)
    if isinstance(operand.value, int):
        return f"{operand.value & (1 << 64) - 1:#x}"
    if operand.text[:2].lower() == "0f":
        bits = int(np.float32(operand.value).view(np.uint32))
        return operand.text if operand.value != operand.value else f"0f{bits:08X}"
    return f"0d{int(np.float64(operand.value).view(np.uint64)):016X}"


PLACES = (
    *("mov.u64 %q{}, ", "mov.u64 %q{}, g+", "mov.u64 %q{}, c+", "mov.u64 %q{}, s+"),
    *("ld.global.u8 %q{}, [%q0+", "ld.global.u8 %q{}, [g+", "ld.const.u8 %q{}, [c+"),
    *("ld.shared.u8 %q{}, [s+", "ld.local.u8 %q{}, [l+", "ld.local.u8 %q{}, ["),
    *("ld.global.u8 %q{}, g[", "ld.const.u8 %q{}, c[", "ld.shared.u8 %q{}, s["),
    "mov.b64 %q{}, {{%w0, ",
)
"""Where an integer may stand in an instruction that reads, behind ``%q`` and a number."""


OPERATIONS = (
    "add.{t} {d}, {a}, {b};", "sub.{t} {d}, {a}, {b};", "mul.lo.{t} {d}, {a}, {b};",
    "and.b{n} {d}, {a}, {b};", "or.b{n} {d}, {a}, {b};", "xor.b{n} {d}, {a}, {b};",
    "shl.b{n} {d}, {a}, {s};", "shr.{t} {d}, {a}, {s};", "not.b{n} {d}, {a};",
    "min.{t} {d}, {a}, {b};", "max.{t} {d}, {a}, {b};", "mad.lo.{t} {d}, {a}, {b}, {c};",
    "setp.lt.{t} %c1, {a}, {b}; selp.b{n} {d}, {a}, {c}, %c1;",
    "setp.ge.{t} %c2, {a}, {b}; @%c2 mov.b{n} {d}, {c};", "cnot.b{n} {d}, {a};",
)  # fmt: skip


def straight_line(draw: random.Random, found: Folded) -> None:
    """One program of constants alone: what it stores, run here, against what ptxas folds."""
    lines = [f"mov.u64 %q{n}, {integer(draw, 2)};" for n in range(1, 5)]
    lines += [f"mov.u32 %w{n}, {integer(draw, 2)};" for n in range(1, 5)]
    for _ in range(draw.randint(3, 10)):
        bits = draw.choice((32, 64))
        names = [f"%{'w' if bits == 32 else 'q'}{draw.randint(1, 4)}" for _ in range(4)]
        values = [name if draw.random() < 0.6 else integer(draw, 2) for name in names[1:]]
        values[0] = names[1]
        shift = str(draw.randrange(bits))
        fields = {"t": f"{draw.choice('us')}{bits}", "n": bits, "d": names[0], "s": shift}
        fields |= dict(zip("abc", values, strict=True))
        lines.append(draw.choice(OPERATIONS).format(**fields))
    stores = [f"st.global.u64 [%q0+{8 * n}], %q{n};" for n in range(1, 5)]
    stores += [f"st.global.u32 [%q0+{8 * n + 32}], %w{n};" for n in range(1, 5)]
    text = _program([*lines, *stores])
    theirs = assembled(text)
    try:
        module = parse_module(SourceFile("k.ptx", text))
    except PtxwcetError:
        found.add(text, theirs and 1, None)
        return
    if theirs is None:
        found.refused_by_ptxas.append(text)
        return
    launch = EmulatedLaunch((1, 1, 1), (1, 1, 1), (np.zeros(9, "u8"),))
    options = EmulatorOptions()
    (words,) = execute(module.kernels[0], module, launch, options=options).buffers
    assert words is not None
    plain = [f"mov.u64 %q{n}, {words[n]};" for n in range(1, 5)]
    plain += [f"mov.u32 %w{n}, {words[n + 4]};" for n in range(1, 5)]
    if theirs == assembled(_program([*plain, *stores])):
        found.compared += len(stores)
        return
    for value, store in zip(plain, stores, strict=True):  # one by one: the order may differ
        folded, ours = assembled(_program([*lines, store])), assembled(_program([value, store]))
        assert folded is not None
        assert ours is not None
        if folded == ours:
            found.compared += 1
        elif sum(map(len, dict(folded).values())) == sum(map(len, dict(ours).values())):
            found.different.append(f"{text}: {store} {value}")
        else:
            found.not_folded += 1


def expressions(seed: int, count: int) -> Folded:
    """Random constants everywhere that a constant may stand. Needs ptxas."""
    assert PTXAS is not None
    draw, found = random.Random(seed), Folded()
    texts = [integer(draw, draw.randint(0, 3)) for _ in range(count)]
    initialisers([f".u64 x = {text}" for text in texts], found)
    initialisers(
        [f".{draw.choice('us')}{draw.choice((8, 16, 32))} x[4] = {{1, {t}}}" for t in texts[::4]],
        found,
    )
    floats = [floating(draw, draw.randint(0, 2)) for _ in range(count // 4)]
    initialisers([f".f{draw.choice((32, 64))} x = {text}" for text in floats], found)
    for start in range(0, count, 64):
        part = texts[start : start + 64]
        immediates([(f"mov.u64 %q{n + 1}, ", text) for n, text in enumerate(part)], found)
        immediates([(f"mov.u32 %w{n + 1}, ", text) for n, text in enumerate(part[::2])], found)
        small = [f"(({text}) & 0xFFF) - 2048" for text in part[::2]]
        places = draw.choices(PLACES, k=len(small))
        probes = zip(places, small, strict=True)
        immediates([(one.format(n + 1), t) for n, (one, t) in enumerate(probes)], found)
        part = floats[start // 4 : start // 4 + 16]
        immediates([(f"mov.f64 %d{n + 1}, ", text) for n, text in enumerate(part)], found)
    return found


def corners() -> Folded:
    """The constants with names above at every place where one may stand. Needs ptxas."""
    found = Folded()
    for space in ("global", "const"):
        initialisers([f".u64 x = {text}" for text in (*SMALL, *LARGE)], found, space)
    initialisers([f".s16 x[3] = {{1, {text}}}" for text in SMALL], found)
    initialisers([f".f64 x = {text}" for text in FLOATS], found)
    initialisers([f".f32 x = {text}" for text in (*FLOATS, *HEX_FLOATS)], found)
    probes = [(place, text) for text in SMALL for place in PLACES]
    probes += [("mov.u64 %q{}, ", text) for text in LARGE]
    probes += [("mov.f64 %d{}, ", text) for text in FLOATS]
    probes += [("mov.f32 %f{}, ", text) for text in HEX_FLOATS]
    for start in range(0, len(probes), 90):
        part = probes[start : start + 90]
        statements = [(place.format(n + 1), text) for n, (place, text) in enumerate(part)]
        immediates(statements, found, instruments=start % 270 == 0)
    return found


def programs(seed: int, count: int) -> Folded:
    """Random straight-line programs of constants. Needs ptxas."""
    draw, found = random.Random(seed), Folded()
    for _ in range(count):
        straight_line(draw, found)
    return found
