"""What each instruction of PTX needs of ``.version`` and ``.target``: ``ptxwcet/ir/needs.json``.

    python benchmarks/needed_headers.py --out ptxwcet/ir/needs.json --sample needs.tsv

The statements are those of all forms of the table of instructions, each with all its words where
there are few, with a drawn sample where there are many, and the statements of
``semantic_mutants.py`` and ``form_counts.py``. Of each that ptxas takes at its newest version, the
least version is found by bisection, for every target that takes it. A hundred thousand verdicts
take a minute: one run of ptxas judges hundreds of statements, and a virtual architecture keeps it
from translating them.

The table that is committed was made so without six targets (sm_11, 21, 37, 52, 62, 72), and its
rows were widened by what ptxas takes of two smaller samples in which all targets were asked.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))
sys.path.insert(0, str(Path(__file__).parent))

from ptxas_verdicts import PTXAS

from ptxwcet.ir.instruction_set import OPCODES, find_opcode
from ptxwcet.ir.needs import directive_words, words_of
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.permitted import Form, Mark, Specification, specifications
from ptxwcet.ir.words import count_spaces, is_type
from ptxwcet.ptx.scopes import SPECIAL_REGISTERS

VERSIONS = [
    (major, minor)
    for major, last in enumerate((-1, 5, 3, 2, 3, 1, 5, 8, 8, 0))
    for minor in range(last + 1)
]
INTRODUCED = {
    (1, 0): "10 11", (1, 2): "12 13", (2, 0): "20 21", (3, 0): "30", (3, 1): "35",
    (4, 0): "32 50", (4, 1): "37 52", (4, 2): "53", (5, 0): "60 61 62", (5, 1): "70",
    (6, 1): "72", (6, 3): "75", (7, 0): "80", (7, 1): "86", (7, 3): "88", (7, 4): "87",
    (7, 8): "89 90", (8, 0): "90a", (8, 6): "100 100a", (8, 7): "120 120a",
    (8, 8): "100f 103 103a 103f 120f 121 121a 121f", (9, 0): "110 110a 110f",
}  # fmt: skip
FIRST = {target: version for version, names in INTRODUCED.items() for target in names.split()}
TARGETS = sorted(FIRST, key=lambda name: (int(name.rstrip("af")), name))
MOST = 1500
_VECTORS = frozenset(
    ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
)
CHUNK = 2000
OUTSIDE = "outside: "
"""Stands before what belongs between functions; NAME in it is another name each time."""

Version = tuple[int, int]
_ERROR = re.compile(r", line (\d+); (?:error|fatal)\s*: (.*)")
_SHAPE = re.compile(r"m(?P<M>\d+)n(?P<N>\d+)(?:k(?P<K>\d+))?\Z")


# --- statements -----------------------------------------------------------------------------------


_NARROW = frozenset(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"))
_LAST = frozenset(("ue8m0", "ue4m3", "b6x16_p32", "b4x16_p64"))


def spelled(form: Form, chance: random.Random) -> Iterator[list[str]]:
    """The modifiers of a form: all choices, or a sample of them with every pair of two words."""
    choices = []
    for text in form.words.split():
        words = text.strip("[]^").split("|")
        choices.append(["", *words] if text[0] == "[" else words)
    kinds = (form.types, form.second, *form.more.split(";"))
    choices += [kind.split() for kind in kinds if kind]
    if math.prod(map(len, choices)) <= MOST:
        chosen = [list(words) for words in product(*choices)]
    else:
        chosen = []
        for first, second in combinations(range(len(choices)), 2):
            for pair in product(choices[first], choices[second]):
                for is_short in (True, False):
                    words = [
                        "" if is_short and "" in choice else chance.choice(choice)
                        for choice in choices
                    ]
                    words[first], words[second] = pair
                    chosen.append(words)
    yield from ([word for word in _in_order(words) if word] for words in chosen)


def _in_order(words: list[str]) -> list[str]:
    """The order in which ptxas takes them: the type of the result before those of the factors."""
    types = [word for word in words if is_type(word)]
    narrow = [word for word in words if word in _NARROW]
    last = [word for word in words if word in _LAST]
    rest = [word for word in words if word not in {*types, *narrow, *last}]
    return [*rest, *types[:1], *narrow, *types[1:], *last]


def _register(kind: str, place: int, wide: str = "") -> str:
    if kind == "pred":
        return f"%p{place}"
    if kind in ("f32", "f64"):
        return f"%{kind}_{place}"
    digits = "".join(c if c.isdigit() or c == "x" else " " for c in kind).split()[-1]
    bits = 1
    for part in digits.split("x"):
        bits *= int(part)
    bits = max(16, bits)
    return f"%b{bits}_{place}"


class Writer:
    """The operands of one form with given modifiers; ``address`` is how addresses are written."""

    def __init__(self, name: str, modifiers: Sequence[str], address: str) -> None:
        self.name, self.modifiers, self.address = name, modifiers, address
        self.own = [word for word in modifiers if is_type(word)]
        self.sizes = [int(word[1:]) for word in modifiers if word in ("v2", "v4", "v8")]
        self.spaces = [word for word in modifiers if count_spaces((word,))]
        self.place = self.addresses = 0

    def text(self, specification: Specification, *, pair: bool) -> str:
        wanted = specification
        self.place += 1
        if wanted.type.startswith("[]"):
            return self._at(wanted.type[2:])
        if wanted.type[0] == "[":
            return self._resource(wanted.type)
        first = self._single(wanted)
        if wanted.second and pair:
            self.place += 1
            return f"{first}|{_register(wanted.second, self.place)}"
        return first

    def _named(self, name: str) -> str:
        if name == "W":
            return f"{self.own[0][0]}{2 * int(self.own[0][1:])}"
        return self.own[int(name) - 1] if name.isdigit() else name

    def _single(self, wanted: Specification) -> str:
        kind = self._named(wanted.type)
        if wanted.size:
            return self._vector(wanted.size, kind)
        if wanted.fragment:
            shape = next(found for found in map(_SHAPE.match, self.modifiers) if found)
            rows, columns = (
                int(shape[c.upper()]) // (2 if c.islower() else 1) for c in wanted.fragment
            )
            bits = rows * columns * int(kind.lstrip("bfstu"))
            element = "f64" if kind == "f64" else "f32" if kind == "f32" else "b32"
            threads = 128 if shape["M"] == "64" else 32
            return self._vector(max(1, bits // threads // int(element[1:])), element)
        if wanted.has(Mark.VECTOR, Mark.LOOSE) and self.sizes:
            return self._vector(self.sizes[0], kind)
        if wanted.has(Mark.LITERAL):
            if wanted.literals:
                return str(wanted.literals[0])
            return "24" if self.name == "setmaxnreg" else "1"
        if wanted.type == "":
            return "0"
        return _register(kind, self.place)

    def _vector(self, size: int, kind: str) -> str:
        self.place += size
        names = (_register(kind, self.place + n) for n in range(size))
        return "{" + ", ".join(names) + "}"

    def _at(self, coordinates: str) -> str:
        self.addresses += 1
        if self.name.startswith("mbarrier."):
            space = "shared"
        elif not self.spaces:
            space = ""
        else:
            space = [*self.spaces, "shared"][min(self.addresses - 1, len(self.spaces))]
        space = space.replace("param::func", "q")
        names = {"shared": "sh", "const": "cn", "param": "pa", "local": "lo", "q": "q"}
        if space == "param" and self.name == "st":
            space = "q"
        base = names.get(space.partition("::")[0], f"%b64_{self.place}")
        if self.address != "own" and base in ("sh", f"%b64_{self.place}"):
            base = self.address if self.address == "sh" else f"%{self.address}_{self.place}"
        if coordinates:
            lanes = (f"%b32_{100 + n}" for n in range(int(coordinates)))
            return f"[{base}, {{{', '.join(lanes)}}}]"
        return f"[{base}]"

    def _resource(self, text: str) -> str:
        found = re.match(r"\[([ts])\](i?)([fs]?)(\d*)\Z", text)
        assert found is not None
        base = ("tx" if found[1] == "t" else "sf") if self.address == "own" else "%b64_90"
        if not found[4]:
            return f"[{base}]"
        kind = "f32" if found[3] == "f" else "b32"
        lanes = [_register(kind, 80 + n) for n in range(int(found[4]))]
        if found[2]:
            lanes[0] = "%b32_79"
        return f"[{base}, {{{', '.join(lanes)}}}]"


def candidates(name: str, form: Form, modifiers: list[str]) -> Iterator[list[str]]:
    """Statements of a form that differ in their addresses, for each number of operands."""
    wanted, least = specifications(form.operands)
    mnemonic = ".".join((name, *modifiers))
    for count in range(least, len(wanted) + 1):
        for pair in (False, True) if any(entry.second for entry in wanted) else (False,):
            ways = []
            for address in ("own", "b64", "b32", "sh"):
                writer = Writer(name, modifiers, address)
                texts = [writer.text(entry, pair=pair) for entry in wanted[:count]]
                ways.append(f"{mnemonic} {', '.join(texts)}".strip() + ";")
            yield list(dict.fromkeys(ways))


def from_forms(chance: random.Random) -> dict[str, list[list[str]]]:
    """Groups of statements by opcode; of each group one is judged that ptxas takes."""
    found: dict[str, list[list[str]]] = {}
    for name, row in OPCODES.items():
        groups = [
            ways
            for form in row.forms
            for modifiers in spelled(form, chance)
            for ways in candidates(name, form, modifiers)
        ]
        found[name] = list({ways[0]: ways for ways in groups}.values())
    return found


def directives() -> Iterator[str]:
    """Declarations and directives, in and outside of functions."""
    kinds = [f"{letter}{bits}" for letter in "bus" for bits in (8, 16, 32, 64)]
    kinds += ["f16", "f16x2", "f32", "f64", "b128", "pred"]
    for kind, vector in product(kinds, ("", ".v2 ", ".v4 ")):
        yield f".reg {vector}.{kind} x;"
        for space in (".local", ".shared", ".param"):
            yield f"{space} {vector}.{kind} x;"
        for space in (".global", ".const", ".shared"):
            yield f"{OUTSIDE}{space} {vector}.{kind} NAME;"
        yield f"{OUTSIDE}.entry NAME (.param {vector}.{kind} x) {{ ret; }}"
        yield f"{OUTSIDE}.func NAME (.param {vector}.{kind} x) {{ ret; }}"
        yield f"{OUTSIDE}.func NAME (.reg {vector}.{kind} x) {{ ret; }}"
        yield f"{OUTSIDE}.func (.param {vector}.{kind} x) NAME () {{ ret; }}"
        yield f"{OUTSIDE}.func (.reg {vector}.{kind} x) NAME () {{ ret; }}"
    for kind in ("texref", "surfref", "samplerref"):
        yield f"{OUTSIDE}.global .{kind} NAME;"
        yield f"{OUTSIDE}.entry NAME (.param .{kind} x) {{ ret; }}"
    for text in (
        *("align 8 .b8 NAME[8]", "u32 NAME = 5", "u64 NAME = gl", "u64 NAME = generic(gl)"),
        *("attribute(.managed) .u32 NAME", "attribute(.unified(1,2)) .u32 NAME"),
        *("u8 NAME[2] = {0xff(gl), 0xff00(gl)}", "u64 NAME = gl+4", "u64 NAME = fn"),
        *("u32 NAME = gl", "u64 NAME = 5", "b8 NAME[2] = {1, 2}", "u8 NAME = 5", "f32 NAME = 1.0"),
        *("f64 NAME[2] = {1.0, 2.0}", "align 8 .b64 NAME = 5", "u64 NAME[2] = {generic(gl), 0}"),
    ):
        for space in (".global", ".const"):
            yield f"{OUTSIDE}{space} .{text};"
            for linkage in (".visible", ".extern", ".weak", ".common"):
                yield f"{OUTSIDE}{linkage} {space} .{text};"
    yield f"{OUTSIDE}.attribute(.managed) .global .u32 NAME;"
    yield f"{OUTSIDE}.extern .shared .align 8 .b8 NAME[];"
    yield f"{OUTSIDE}.tex .u32 NAME;"
    for text in (
        *("maxntid 32", "maxntid 32, 1, 1", "reqntid 32", "maxntid 32 .minnctapersm 2"),
        *("maxntid 32 .maxnctapersm 2", "maxnreg 32", "reqnctapercluster 2", "explicitcluster"),
        *("reqnctapercluster 2 .explicitcluster", "maxclusterrank 2", 'pragma "nounroll";'),
        "reqntid 32 .reqnctapercluster 2 .blocksareclusters",
    ):
        yield f"{OUTSIDE}.entry NAME () .{text} {{ ret; }}"
    for text in ("ptr", "ptr .global", "ptr .global .align 8", "ptr .shared", "ptr .align 16"):
        yield f"{OUTSIDE}.entry NAME (.param .u64 .{text} x) {{ ret; }}"
    for head in (".entry NAME", ".func NAME"):
        yield f"{OUTSIDE}{head} {{ ret; }}"
        yield f"{OUTSIDE}{head} () {{ ret; }}"
        for linkage in (".visible", ".weak", ".extern", ".common"):
            yield f"{OUTSIDE}{linkage} {head} () {{ ret; }}"
            yield f"{OUTSIDE}{linkage} {head} ();"
    yield f"{OUTSIDE}.func NAME () .noreturn {{ trap; ret; }}"
    yield f"{OUTSIDE}.func .attribute(.unified(1,2)) NAME () {{ ret; }}"
    yield f"{OUTSIDE}.func NAME () .abi_preserve 4 {{ ret; }}"
    yield f"{OUTSIDE}.func NAME () .abi_preserve_control 4 {{ ret; }}"
    yield f"{OUTSIDE}.func (.reg .b32 r) NAME (.reg .b32 x, .reg .b32 y) {{ ret; }}"
    yield f"{OUTSIDE}.func NAMEf () {{ ret; }} .func NAME (); .alias NAME, NAMEf;"
    yield f'{OUTSIDE}.pragma "nounroll";'
    yield '.pragma "nounroll";'
    yield "P: .callprototype _ ();"
    yield "P: .callprototype (.param .b32 _) _ (.param .b32 _);"
    yield "P: .callprototype _ () .noreturn;"
    yield "P: .callprototype _ () .abi_preserve 4;"
    yield "P: .calltargets fn;"
    yield "A: T: .branchtargets A;"


def controls() -> Iterator[str]:
    """Branches, calls and the like, and every special register."""
    for name in sorted(SPECIAL_REGISTERS):
        member = ".x" if name in _VECTORS else ""
        for bits in (16, 32, 64):
            yield f"mov.b{bits} %b{bits}_1, %{name}{member};"
            yield f"mov.u{bits} %b{bits}_1, %{name}{member};"
    yield from ("A: bra A;", "A: bra.uni A;", "A: T: .branchtargets A; brx.idx %b32_1, T;")
    yield from ("A: T: .branchtargets A; brx.idx.uni %b32_1, T;", "call fn;", "call.uni fn;")
    yield from ("P: .callprototype _ (); call %b64_1, (), P;", "ret;", "ret.uni;", "exit;", "trap;")
    yield from ("P: .calltargets fn; call %b64_1, (), P;", "bra.uni A; A:", "@%p1 bra A; A:")
    yield from ("mov.u64 %b64_1, fn;", "mov.b64 %b64_1, {%b32_1, %b32_2};", "call (), fn, ();")
    yield from ("mov.b64 {%b32_1, %b32_2}, %b64_1;", "mov.b64 {_, %b32_2}, %b64_1;")
    yield from ("mov.b128 %b128_1, {%b64_1, %b64_2};", "mov.b128 {%b64_1, %b64_2}, %b128_1;")
    yield from ("atom.global.add.u32 _, [%b64_1], %b32_1;", "elect.sync _|%p1, -1;")
    yield from ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [sh];",)
    yield from ("mbarrier.arrive.shared.b64 _, [sh];", "match.all.sync.b32 _|%p1, %b32_1, -1;")


# --- ptxas ----------------------------------------------------------------------------------------

_KINDS = "pred b8 u8 s8 b16 u16 s16 f16 b32 u32 s32 f32 f16x2 b64 u64 s64 f64 b128"
_USED = re.compile(rf"%(?:({'|'.join(_KINDS.split())})_|([phrd]))\d+\b")
_LETTERS = {"p": "pred", "h": "b16", "r": "b32", "d": "b64"}


@cache
def line_of(statement: str) -> str:
    """The statement in a block with the registers that it needs."""
    kinds = {found[0]: found[1] or _LETTERS[found[2]] for found in _USED.finditer(statement)}
    parts = [f".reg .{kind} {name}; " for name, kind in kinds.items()]
    if re.search(r"\bq\b", statement):
        parts.append(".param .align 16 .b8 q[64]; ")
    if re.search(r"\bvec\b", statement):
        parts.append(".reg .v4 .b32 vec; ")
    return "{ " + "".join(parts) + statement + " }"


def judged(statements: Sequence[str], version: Version, target: str) -> set[str]:
    """The statements that ptxas takes."""
    taken: set[str] = set()
    for start in range(0, len(statements), CHUNK):
        taken.update(_taken(list(statements[start : start + CHUNK]), version, target))
    return taken


def _taken(rest: list[str], version: Version, target: str) -> list[str]:
    rest = sorted(rest, key=lambda entry: not entry.startswith(OUTSIDE))
    while rest:
        text, lines = _text(rest, version, target)
        errors = _errors(text, version, target)
        wrong = {lines[line] for line in errors if line in lines}
        if 0 in errors and not wrong:  # no line is named: statements are halved until one is left
            if len(rest) == 1:
                return []
            middle = len(rest) // 2
            return _taken(rest[:middle], version, target) + _taken(rest[middle:], version, target)
        if not wrong:
            return rest
        rest = [entry for entry in rest if entry not in wrong]
    return []


def _text(statements: Sequence[str], version: Version, target: str) -> tuple[str, dict[int, str]]:
    """A file with these statements, one a line, and which stands where."""
    size = ".address_size 64\n" if version >= (2, 3) else ""
    text = f".version {version[0]}.{version[1]}\n.target sm_{target}\n{size}"
    text += ".global .align 16 .b32 gl[64];\n.const .align 16 .b32 cn[64];\n"
    text += ".shared .align 16 .b32 sh[64];\n"
    text += ".global .texref tx;\n.global .surfref sf;\n" if version >= (1, 5) else ""
    text += ".func fn { ret; }\n"
    lines = {}
    at = text.count("\n") + 1
    outside = [entry for entry in statements if entry.startswith(OUTSIDE)]
    for number, entry in enumerate(outside):
        lines[at + number] = entry
        text += entry.removeprefix(OUTSIDE).replace("NAME", f"n{number}") + "\n"
    text += ".entry k (.param .align 16 .b8 pa[64]) {\n" if version >= (1, 4) else ".entry k {\n"
    text += ".local .align 16 .b32 lo[64];\n"
    at = text.count("\n") + 1
    for number, entry in enumerate(statements[len(outside) :]):
        lines[at + number] = entry
        text += f"{line_of(entry)}\n"
    return text + "ret;\n}\n", lines


def _errors(text: str, version: Version, target: str) -> dict[int, str]:
    number = int(target.rstrip("af"))
    virtual = target if number >= 75 else "75"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "asked.ptx"
        path.write_text(text)
        alone = ["-c"] if version >= (3, 1) else []  # functions may be defined elsewhere
        command = [str(PTXAS), *alone, f"-arch=compute_{virtual}", "-o", f"{folder}/out", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 0:
        return {}
    found: dict[int, str] = {}
    for match in _ERROR.finditer(done.stderr):
        found.setdefault(int(match.group(1)), match.group(2).strip())
    return found or {0: done.stderr.strip()[:200]}


# --- what each statement needs --------------------------------------------------------------------

Region = dict[str, tuple[int, int]]
"""Of each target that has a statement: its first version and its last, as places in VERSIONS."""

_TOP = len(VERSIONS) - 1


def regions(statements: Sequence[str], target: str) -> dict[str, tuple[int, int]]:
    """The first and the last version in which each statement is taken for a target, by bisection.

    There is one interval: a statement that the newest version does not take is asked for in
    versions before ptxas removed something.
    """
    first = VERSIONS.index(FIRST[target])
    newest = judged(statements, VERSIONS[_TOP], target)
    oldest = judged(sorted(newest), VERSIONS[first], target)
    found = dict.fromkeys(oldest, (first, _TOP))
    spans = {entry: [first, _TOP] for entry in newest - oldest}
    _bisect(spans, target, rises=True)
    found.update({entry: (high, _TOP) for entry, (_, high) in spans.items()})
    left = [entry for entry in statements if entry not in newest]
    for version in ((6, 3), (2, 0), VERSIONS[first]):
        at = VERSIONS.index(version)
        if at >= first and left:
            taken = judged(left, version, target)
            ends = {entry: [at, _TOP] for entry in taken}
            begins = {entry: [first - 1, at] for entry in taken}
            _bisect(ends, target, rises=False)
            _bisect(begins, target, rises=True)
            found.update({entry: (begins[entry][1], ends[entry][0]) for entry in taken})
            left = [entry for entry in left if entry not in taken]
    return found


def _bisect(spans: dict[str, list[int]], target: str, *, rises: bool) -> None:
    """Narrows spans until their ends are neighbours; ``rises``: the upper end is taken."""
    while True:
        asked: dict[int, list[str]] = {}
        for entry, (low, high) in spans.items():
            if high - low > 1:
                asked.setdefault((low + high) // 2, []).append(entry)
        if not asked:
            return
        for middle, statements in asked.items():
            taken = judged(statements, VERSIONS[middle], target)
            for entry in statements:
                spans[entry][int((entry in taken) == rises)] = middle


def chosen(groups: Iterable[list[str]]) -> list[str]:
    """Of each group the first statement that ptxas takes anywhere."""
    left, found = list(groups), []
    for target, version in (
        *((target, (9, 0)) for target in ("121a", "100a", "90a", "103a", "75", "61", "30")),
        *(("75", (6, 3)), ("35", (3, 1)), ("13", (1, 4))),
    ):
        for place in range(4):
            asked = [ways[place] for ways in left if len(ways) > place]
            taken = judged(list(dict.fromkeys(asked)), version, target)
            found += [ways[place] for ways in left if len(ways) > place and ways[place] in taken]
            left = [ways for ways in left if len(ways) <= place or ways[place] not in taken]
    return list(dict.fromkeys(found))


# --- rules: which words need what -----------------------------------------------------------------

Spans = tuple[tuple[int, int] | None, ...]
"""A region with a place for each target; versions before a target was introduced are 0."""

Words = frozenset[str]
_EVERYTHING: Spans = tuple((0, _TOP) for _ in TARGETS)
_MOST_WORDS = 3
_LEAST_ROWS = 6
"""Statements that speak for what two or three words need together."""

_OPERAND = re.compile(r"[{(\[][^}\])]*[}\])]")


def words_in(statement: str) -> tuple[str, Words]:
    """The row of the table that judges a statement, and the words that it has."""
    if statement.startswith((OUTSIDE, ".", "P:")) or ": T:" in statement:
        name, words = directive_words(statement.removeprefix(OUTSIDE))
        if "brx" not in statement:
            return name, frozenset(words - {name})
    special = re.search(r", %([a-z]\w*?)(?:\.[xyz])?;", statement)
    if special is not None and special[1] in SPECIAL_REGISTERS:
        return "%", frozenset((special[1],))
    pieces = (re.sub(r"^\s*(?:@!?\S+ |\w+: ?)*", "", piece) for piece in statement.split(";"))
    text = [piece for piece in pieces if piece][-1]
    mnemonic, _, rest = text.partition(" ")
    row, leading = find_opcode(mnemonic.split("."))
    assert row is not None, statement
    operands = (
        [entry.strip() for entry in _OPERAND.sub("v", rest).split(",")] if rest.strip() else []
    )
    count = 0 if row.control is not ControlEffect.NONE else len(operands)
    marks = "|" * any("|" in entry for entry in operands) + "_" * ("_" in operands)
    return row.name, frozenset(words_of(mnemonic.split(".")[leading:], count, marks))


def spans_of(region: Region) -> Spans:
    """The region with a place for each target."""
    return _from_introduction([region.get(target) for target in TARGETS])


def _from_introduction(spans: Iterable[tuple[int, int] | None]) -> Spans:
    each = zip(TARGETS, spans, strict=True)
    return tuple(
        span and (0 if span[0] <= VERSIONS.index(FIRST[target]) else span[0], span[1])
        for target, span in each
    )


def either(first: Spans, second: Spans) -> Spans:
    """What one of two regions has, as one interval a target."""
    return tuple(
        (min(a[0], b[0]), max(a[1], b[1])) if a and b else a or b
        for a, b in zip(first, second, strict=True)
    )


def both(first: Spans, second: Spans) -> Spans:
    """What two regions have in common."""
    found: list[tuple[int, int] | None] = []
    for a, b in zip(first, second, strict=True):
        low, high = (max(a[0], b[0]), min(a[1], b[1])) if a and b else (1, 0)
        found.append((low, high) if low <= high else None)
    return _from_introduction(found)


class Rules:
    """The regions of sets of words: a statement has what all sets have that it contains.

    The region of a set is all that some statement with it has: none is refused that ptxas takes.
    """

    def __init__(self, rows: Iterable[tuple[Words, Spans]], common: dict[Words, Spans]) -> None:
        self.rows: dict[Words, Spans] = {}
        for words, spans in rows:
            self.rows[words] = either(self.rows[words], spans) if words in self.rows else spans
        self.rules: dict[Words, Spans] = {}
        self.common = common
        self.said = {words: self._said(words) for words in self.rows}

    def _said(self, words: Words) -> Spans:
        spans = _EVERYTHING
        for needing, region in self.common.items():
            spans = both(spans, region) if needing <= words else spans
        return spans

    def region(self, needing: Words) -> Spans:
        """What statements with these words have."""
        found: Spans = (None,) * len(TARGETS)
        for words, spans in self.rows.items():
            found = either(found, spans) if needing <= words else found
        return _from_introduction(found)

    def learn(self) -> int:
        """Adds the sets of words that explain most, smallest first; how many rows are left."""
        for size in range(_MOST_WORDS + 1):
            while (chosen := self._next(size)) is not None:
                region = self.rules[chosen] = self.region(chosen)
                for words in self.rows:
                    if chosen <= words:
                        self.said[words] = both(self.said[words], region)
        return len(self._wrong())

    def _wrong(self) -> list[Words]:
        return [words for words, spans in self.rows.items() if self.said[words] != spans]

    def _next(self, size: int) -> Words | None:
        counts: Counter[Words] = Counter()
        wrong = self._wrong()
        least = 1 if size < 2 else _LEAST_ROWS
        for words in wrong[:400]:
            counts.update(frozenset(each) for each in combinations(sorted(words), size))
        best, most = None, 0
        for needing, _ in sorted(counts.items(), key=lambda row: (-row[1], sorted(row[0])))[:300]:
            if needing in self.rules or sum(needing <= words for words in self.rows) < least:
                continue
            region = self.region(needing)
            gain = sum(
                both(self.said[words], region) != self.said[words]
                for words in wrong
                if needing <= words
            )
            if gain > most:
                best, most = needing, gain
        return best


def common_rules(rows: dict[str, list[tuple[Words, Spans]]]) -> dict[Words, Spans]:
    """Words that need the same behind every opcode, of at least four."""
    spoken: dict[str, dict[str, Spans]] = {}
    for name, each in rows.items():
        whole: Spans = (None,) * len(TARGETS)
        for _, spans in each:
            whole = either(whole, spans)
        for words, spans in each:
            for word in words:
                if word[0].isalpha() and "@" not in word and name[0] not in ".%":
                    regions = spoken.setdefault(word, {})
                    regions[name] = either(regions.get(name, (None,) * len(TARGETS)), spans)
        for regions in spoken.values():  # what the opcode needs with any words says nothing
            if regions.get(name) == whole:
                regions[name] = whole
    found = {}
    for word, regions in spoken.items():
        region: Spans = (None,) * len(TARGETS)
        for spans in regions.values():
            region = either(region, spans)
        if len(regions) > 3 and (region := _from_introduction(region)) != _EVERYTHING:
            found[frozenset((word,))] = region
    return found


def needed_text(spans: Spans) -> str:
    """A region as the table spells it."""
    left = {target: span for target, span in zip(TARGETS, spans, strict=True) if span}
    clauses = []
    while left:
        last = max(high for _, high in left.values())
        first = max(low for low, high in left.values() if high == last)
        group = [
            target
            for target, (low, high) in left.items()
            if high == last and low == (first if first > VERSIONS.index(FIRST[target]) else 0)
        ]
        left = {target: span for target, span in left.items() if target not in group}
        versions = "{}.{}".format(*VERSIONS[first]) if first else ""
        versions += "" if last == _TOP else "..{}.{}".format(*VERSIONS[last])
        clauses.append(" ".join(word for word in (versions, *_targets_text(group)) if word))
    return "; ".join(clauses)


def _targets_text(targets: Iterable[str]) -> list[str]:
    """Targets in ranges: ``sm_80`` for all from there on, ``sm_90a`` for one."""
    given, texts = set(targets), list[str]()
    numbers = sorted({int(target.rstrip("af")) for target in TARGETS})
    kin = {n: {target for target in TARGETS if target.rstrip("af") == str(n)} for n in numbers}
    runs: list[list[int]] = []
    for place, number in enumerate(numbers):
        if kin[number] <= given:
            if place and runs and runs[-1][-1] == numbers[place - 1]:
                runs[-1].append(number)
            else:
                runs.append([number])
        else:
            texts += [f"sm_{target}" for target in TARGETS if target in kin[number] & given]
    for run in runs:
        if run[-1] == numbers[-1]:
            texts += [f"sm_{run[0]}"] if run[0] != numbers[0] else []
        else:
            texts.append(f"sm_{run[0]}-{run[-1]}")
    return texts


def table_of(found: dict[str, Region]) -> tuple[dict[str, dict[str, str]], dict[str, Rules]]:
    """The table, and the rules of each opcode."""
    rows: dict[str, list[tuple[Words, Spans]]] = {}
    for statement, region in found.items():
        name, words = words_in(statement)
        rows.setdefault(name, []).append((words, spans_of(region)))
    common = common_rules(rows)
    learned = {
        name: Rules(each, common if name[0] not in ".%" else {}) for name, each in rows.items()
    }
    for name, rules in learned.items():
        left = rules.learn()
        print(name, len(rules.rows), "rows", len(rules.rules), "rules", left, "left", flush=True)
    own = {name: rules.rules for name, rules in sorted(learned.items())}
    table = {}
    for name, regions in {"*": common, **own}.items():
        groups: dict[str, list[str]] = {}
        for words, spans in regions.items():
            if spans != _EVERYTHING:
                groups.setdefault(needed_text(spans), []).append("+".join(sorted(words)))
        if groups:
            table[name] = {text: " ".join(sorted(sets)) for text, sets in sorted(groups.items())}
    return table, learned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sample", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    groups = [ways for each in from_forms(chance).values() for ways in each]
    statements = chosen([*groups, *([entry] for entry in (*directives(), *controls()))])
    found: dict[str, Region] = {entry: {} for entry in statements}
    for target in TARGETS:
        for statement, region in regions(statements, target).items():
            found[statement][target] = region

    table, _ = table_of(found)
    given.out.write_text(json.dumps(table, indent=1) + "\n")
    with given.sample.open("w") as file:
        for statement in chance.sample(sorted(found), 400):
            spans = {target: list(span) for target, span in found[statement].items()}
            file.write(f"{statement}\t{json.dumps(spans)}\n")


if __name__ == "__main__":
    main()
