"""How many instructions ptxas makes of each form of PTX: the table of ``machine/expansions.json``.

    python benchmarks/form_counts.py --out ptxwcet/machine/expansions.json

A row of a machine file times a class of instructions, as if each were one of the machine; forms of
which the compiler makes several are charged for all of them (docs/machine-files.md). The statements
are those of ``tests/oracle/instruction_forms.py`` and the modifiers written below, as far as ptxas
takes them. A form is compiled twice and six times over in a kernel, from words that are loaded into
words that are stored: a quarter of the difference, less loads and stores, is what it is made of.
What is called or loops has no such number, and is left out. Needs ptxas and nvdisasm; two minutes
of four targets each.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))
sys.path.insert(0, str(Path(__file__).parent))

from instruction_forms import statements
from ptxas_verdicts import PTXAS, verdicts

from ptxwcet.sass.disassembler import disassembled

TARGETS = ("75", "80", "86", "90")
_REGISTER = re.compile(r"%([phrd])(\d)\b")
_KINDS = {"p": "pred", "h": "b16", "r": "b32", "d": "b64"}
_CHUNK = 400
_FREE = frozenset({"LDG", "STG", "NOP"})
"""What stands around a form, in each copy."""

_LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9.]*)")
_SPECIAL = frozenset({"F2I", "I2F", "F2F", "FRND", "MUFU", "POPC", "FLO", "BREV"})
"""What the unit for special functions does."""

_DOUBLE = frozenset({"DADD", "DMUL", "DFMA", "DSETP"})
_FEW, _MANY = 2, 6


def forms() -> list[str]:
    """All statements: those of the oracle, and with more modifiers."""
    return list(dict.fromkeys([*statements(), *_floats(), *_conversions(), *_sets(), *_others()]))


def _of(kind: str, place: int) -> str:
    wide = {"f16": "h", "bf16": "h", "f64": "d", "f32x2": "d"}
    return f"%{wide.get(kind, 'r')}{place}"


def _floats() -> Iterator[str]:
    rounds = ("", ".rn", ".rz", ".rm", ".rp")
    for kind in ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64"):
        d, a, b, c = (_of(kind, place) for place in range(4))
        for name, r, ftz, sat in product(("add", "sub", "mul"), rounds, ("", ".ftz"), ("", ".sat")):
            yield f"{name}{r}{ftz}{sat}.{kind} {d}, {a}, {b};"
        ends = ("", ".sat", ".relu")
        for name, r, ftz, end in product(("fma", "mad"), rounds, ("", ".ftz"), ends):
            yield f"{name}{r}{ftz}{end}.{kind} {d}, {a}, {b}, {c};"
        for name, ftz in product(("neg", "abs"), ("", ".ftz")):
            yield f"{name}{ftz}.{kind} {d}, {a};"
        ends = ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs")
        for name, ftz, end in product(("min", "max"), ("", ".ftz"), ends):
            yield f"{name}{ftz}{end}.{kind} {d}, {a}, {b};"
        ways = ("", ".approx", ".full", ".rn", ".rz", ".rm", ".rp")
        for r, ftz in product(ways, ("", ".ftz")):
            yield f"div{r}{ftz}.{kind} {d}, {a}, {b};"
            for name in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"):
                yield f"{name}{r}{ftz}.{kind} {d}, {a};"
        for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield f"testp.{what}.{kind} %p0, {a};"


def _conversions() -> Iterator[str]:
    numbers = [f"{letter}{bits}" for letter in "us" for bits in (8, 16, 32, 64)]
    floats = ("f16", "bf16", "f32", "f64")
    ends = [f"{ftz}{sat}" for ftz, sat in product(("", ".ftz"), ("", ".sat"))]

    def named(kind: str, place: int) -> str:
        return _of(kind, place) if kind in floats else f"%{_wide(kind)}{place}"

    for target, source in product((*numbers, *floats), repeat=2):
        if target in numbers and source in numbers:
            continue
        rounds = ("", ".rn", ".rz", ".rm", ".rp", ".rni", ".rzi", ".rmi", ".rpi")
        for r, end in product(rounds, ends):
            yield f"cvt{r}{end}.{target}.{source} {named(target, 0)}, {named(source, 1)};"
    for r, relu, sat in product((".rn", ".rz", ".rna"), ("", ".relu"), ("", ".satfinite")):
        for target in ("f16", "bf16", "tf32"):
            yield f"cvt{r}{relu}{sat}.{target}.f32 {named(target, 0)}, %r1;"
            yield f"cvt{r}{sat}{relu}.{target}.f32 {named(target, 0)}, %r1;"
        for target in ("f16x2", "bf16x2"):
            yield f"cvt{r}{relu}{sat}.{target}.f32 %r0, %r1, %r2;"
    for target, relu in product(("e4m3x2", "e5m2x2"), ("", ".relu")):
        yield f"cvt.rn.satfinite{relu}.{target}.f32 %h0, %r1, %r2;"
        yield f"cvt.rn.satfinite{relu}.{target}.f16x2 %h0, %r1;"
        yield f"cvt.rn{relu}.f16x2.{target} %r0, %h1;"
    for target, tail in product(("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"), ("", ".b32")):
        third = ", %r3" if tail else ""
        yield f"cvt.pack.sat.{target}.s32{tail} %r0, %r1, %r2{third};"


def _wide(kind: str) -> str:
    return {"8": "h", "16": "h", "32": "r", "64": "d", "f32": "r"}[kind[1:]]


def _sets() -> Iterator[str]:
    numbers = [f"{letter}{bits}" for letter in "us" for bits in (16, 32, 64)]
    floats = ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")
    for kind, operator in product((*numbers, *floats), ("eq", "lt", "nan", "geu", "num")):
        ftz = ("", ".ftz") if kind in floats else ("",)
        a, b = (_of(kind, n) if kind in floats else f"%{_wide(kind)}{n}" for n in (1, 2))
        for flush, joined in product(ftz, ("", ".and", ".xor")):
            third = ", %p3" if joined else ""
            yield f"setp.{operator}{joined}{flush}.{kind} %p0|%p4, {a}, {b}{third};"
            for target in ("u16", "s32", "f32", "f16", "bf16", "f16x2", "bf16x2"):
                d = _of(target, 0) if target in floats else f"%{_wide(target)}0"
                yield f"set.{operator}{joined}{flush}.{target}.{kind} {d}, {a}, {b}{third};"


def _others() -> Iterator[str]:
    for kind in ("s32", "u32", "f32"):
        for selector in ("s32", "f32"):
            yield f"slct.ftz.{kind}.{selector} %r0, %r1, %r2, %r3;"
    for space in ("global", "shared", "local", "const", "param", "shared::cluster"):
        yield f"isspacep.{space} %p0, %d1;"
        yield f"isspacep.{space} %p0, %r1;"
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield f"prmt.b32.{mode} %r0, %r1, %r2, %r3;"
    sat = ("", ".sat")
    for name, end in product(("vadd", "vsub", "vabsdiff", "vmin", "vmax"), sat):
        for types in product(("u32", "s32"), repeat=3):
            yield f"{name}.{'.'.join(types)}{end} %r0, %r1, %r2;"
            yield f"{name}.{'.'.join(types)}{end}.add %r0, %r1, %r2, %r3;"
            yield f"{name}.{'.'.join(types)}{end} %r0.b1, %r1.b2, %r2.h1, %r3;"
    for name, mode, end in product(("vshl", "vshr"), (".clamp", ".wrap"), sat):
        for types in product(("u32", "s32"), repeat=2):
            yield f"{name}.{'.'.join(types)}.u32{end}{mode} %r0, %r1, %r2;"
    for scale, end in product(("", ".shr7", ".shr15"), sat):
        yield f"vmad.s32.s32.s32{end}{scale} %r0, %r1, %r2, %r3;"
        yield f"vmad.u32.u32.u32.po{end}{scale} %r0, %r1, %r2, %r3;"
    for operator in ("eq", "lt", "ge"):
        yield f"vset.s32.s32.{operator} %r0, %r1, %r2;"
        yield f"vset.u32.u32.{operator}.add %r0, %r1, %r2, %r3;"
        for name in ("vset2", "vset4"):
            yield f"{name}.s32.s32.{operator} %r0, %r1, %r2, %r3;"
            yield f"{name}.s32.s32.{operator}.add %r0, %r1, %r2, %r3;"
    for name, end in product(("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg"), sat):
        for lanes, types in product("24", product(("u32", "s32"), repeat=3)):
            yield f"{name}{lanes}.{'.'.join(types)}{end} %r0, %r1, %r2, %r3;"
            yield f"{name}{lanes}.{'.'.join(types)}{end}.add %r0, %r1, %r2, %r3;"
    for mode, kind in product(("any", "all"), ("b32", "b64")):
        yield f"match.{mode}.sync.{kind} %r0, %{_wide(kind)}1, -1;"
    yield "match.all.sync.b32 %r0|%p4, %r1, -1;"
    for name in ("all", "any", "uni"):
        yield f"vote.sync.{name}.pred %p0, %p1, -1;"
    yield from ("vote.sync.ballot.b32 %r0, %p1, -1;", "activemask.b32 %r0;")
    for name, kind in product(("add", "min", "max", "and", "or", "xor"), ("u32", "s32", "b32")):
        yield f"redux.sync.{name}.{kind} %r0, %r1, -1;"
    for mode in ("idx", "up", "down", "bfly"):
        yield f"shfl.sync.{mode}.b32 %r0|%p4, %r1, %r2, %r3, -1;"
    for name in ("tid.x", "laneid", "warpid", "lanemask_lt", "smid", "clock", "clock_hi"):
        yield f"mov.u32 %r0, %{name};"
    yield from ("mov.u64 %d0, %clock64;", "mov.u64 %d0, %globaltimer;")


def compiled(listed: Iterable[str], target: str, copies: int) -> dict[str, Counter[str]]:
    """The instructions of a kernel with so many copies of each statement, by their names."""
    listed, found = list(listed), {}
    for start in range(0, len(listed), _CHUNK):
        chunk = listed[start : start + _CHUNK]
        text = f".version 9.0\n.target sm_{target}\n.address_size 64\n"
        text += "".join(_kernel(n, one, copies) for n, one in enumerate(chunk))
        with tempfile.TemporaryDirectory() as folder:
            ptx, cubin = Path(folder, "k.ptx"), Path(folder, "k.cubin")
            ptx.write_text(text, encoding="utf-8")
            command = [str(PTXAS), f"-arch=sm_{target}", "-O3", str(ptx), "-o", str(cubin)]
            subprocess.run(command, check=True, capture_output=True)
            listing = disassembled("k.cubin", cubin.read_bytes())[1]
        number = -1
        for line in listing.splitlines():
            if begins := re.match(r"\s*\.section\s+\.text\.k(\d+),", line):
                number = int(begins[1])
            elif number >= 0 and (named := _LINE.match(line)):
                found.setdefault(chunk[number], Counter())[named[1]] += 1
    return found


def _kernel(number: int, statement: str, copies: int) -> str:
    """A kernel with copies of a statement, each from words of its own into such."""
    lines = [f".visible .entry k{number}(.param .u64 words) {{ .reg .b64 %w; .reg .b32 %t;"]
    lines += [f".reg .{kind} %{letter}<80>;" for letter, kind in _KINDS.items()]
    lines.append("ld.param.u64 %w, [words];")
    places = dict.fromkeys(_REGISTER.findall(statement))
    more = "0456" if _pair(statement) else "0"
    written = [place for place in places if place[1] in more]
    at = 0
    copied: list[str] = []
    for copy in range(copies):
        for letter, place in places:
            name = f"%{letter}{copy}{place}"
            if (letter, place) in written:
                copied.append(_stored(letter, name, at))
            else:
                lines.append(_loaded(letter, name, at))
            at += 8
        text = _REGISTER.sub(lambda found: f"%{found[1]}{copy}{found[2]}", statement)  # noqa: B023
        copied.insert(len(copied) - len(written), text)
    return "\n".join([*lines, *copied, "ret; }\n"])


def _pair(statement: str) -> bool:
    return "|" in statement or statement.partition(",")[0].count("{") > 0


def _loaded(letter: str, name: str, at: int) -> str:
    if letter == "p":
        return f"ld.volatile.global.b32 %t, [%w+{at}]; setp.ne.b32 {name}, %t, 0;"
    return f"ld.volatile.global.{_KINDS[letter]} {name}, [%w+{at}];"


def _stored(letter: str, name: str, at: int) -> str:
    if letter == "p":
        return f"selp.b32 %t, 1, 0, {name}; st.global.b32 [%w+{at}], %t;"
    return f"st.global.{_KINDS[letter]} [%w+{at}], {name};"


def counted(target: str) -> dict[str, tuple[int, int, int]]:
    """What each form is made of on a target: ordinary instructions, special ones, those of f64."""
    stems = {letter: f"%{kind}_" for letter, kind in _KINDS.items()}
    asked = {_REGISTER.sub(lambda f: f"{stems[f[1]]}{f[2]}", one): one for one in forms()}
    taken = [asked[one] for one, problem in verdicts(asked, target).items() if not problem]
    few, many = (compiled(taken, target, copies) for copies in (_FEW, _MANY))
    found: dict[str, tuple[int, int, int]] = {}
    for one in taken:
        if (made := _made_of(one, few[one], many[one])) is not None:
            name = one.split()[0].rstrip(";")
            found[name] = tuple(map(max, made, found.get(name, made)))
    return found


def _made_of(statement: str, few: Counter[str], many: Counter[str]) -> tuple[int, int, int] | None:
    names = {name.partition(".")[0] for name in many}
    jumps = sum(count for name, count in many.items() if name.split(".")[0] == "BRA")
    if names & {"CALL", "BRX"} or jumps > 1:
        return None
    kinds = Counter[str]()
    for name in many:
        kinds[_kind(name)] += many[name] - few[name]
    for name in few.keys() - many.keys():
        kinds[_kind(name)] -= few[name]
    special, double = (kinds[kind] // (_MANY - _FEW) for kind in ("special", "double"))
    predicates = sum(letter == "p" for letter, _ in set(_REGISTER.findall(statement)))
    ordinary = kinds["ordinary"] // (_MANY - _FEW) - predicates
    if ordinary <= 0 and not special and double == 1 and names & _DOUBLE:
        return 1, 0, 0  # the row of its class is for it
    return max(ordinary, 0 if special + double else 1), special, double


def _kind(name: str) -> str:
    first, *rest = name.split(".")
    if first in _FREE:
        return "free"
    wide = {"F64", "S64", "U64"} & set(rest)
    if (first in _SPECIAL and wide) or first in _DOUBLE:
        return "double"
    return "special" if first in _SPECIAL else "ordinary"


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    table: dict[str, dict[str, set[str]]] = {}
    for target in TARGETS:
        for name, made in counted(target).items():
            if made != (1, 0, 0):
                table.setdefault(target, {}).setdefault(" ".join(map(str, made)), set()).add(name)
    rows = {
        target: {made: " ".join(sorted(names)) for made, names in sorted(groups.items())}
        for target, groups in table.items()
    }
    options.out.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
