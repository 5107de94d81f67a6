"""Reads the first directives of a file: ``.version``, ``.target``, ``.address_size``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lark import Token, UnexpectedInput

from ptxwcet.ptx import statements
from ptxwcet.ptx.grammar import parse_rule, tokens
from ptxwcet.ptx.literals import LiteralError, integer_value
from ptxwcet.ptx.problems import Problems
from ptxwcet.ptx.statements import SKIP
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile

_HEADER = re.compile(
    rf"\.version\b{SKIP}[\w.]*(?:{SKIP}\.target\b(?:{SKIP}\w+(?:{SKIP},{SKIP}\w+)*+)?)*+"
    rf"(?:{SKIP}\.address_size\b(?:{SKIP}\w+)?)?",
    re.ASCII,
)

_INTRODUCED = {
    (1, 0): "10 11", (1, 2): "12 13", (2, 0): "20 21", (3, 0): "30", (3, 1): "35",
    (4, 0): "32 50", (4, 1): "37 52", (4, 2): "53", (5, 0): "60 61 62", (5, 1): "70",
    (6, 1): "72", (6, 3): "75", (7, 0): "80", (7, 1): "86", (7, 3): "88", (7, 4): "87",
    (7, 8): "89 90", (8, 0): "90a", (8, 6): "100 100a 101 101a", (8, 7): "120 120a",
    (8, 8): "100f 101f 103 103a 103f 120f 121 121a 121f", (9, 0): "110 110a 110f",
}  # fmt: skip
"""The architectures by the version of the ISA that names them first (ptxas 13.0)."""

_NEEDED = {
    f"{kind}_{name}": version
    for version, names in _INTRODUCED.items()
    for name in names.split()
    for kind in ("sm", "compute")
}
_LAST_MINORS = (-1, 5, 3, 2, 3, 1, 5, 8, 8, 9)
"""The last minor version of each major one; for 9, where more may follow, the last permitted."""

NEWEST = (9, 0)
"""The version of the ISA whose statements the tables have."""

TARGETS = frozenset(_NEEDED)
"""The names that ``.target`` takes."""

_LONGEST_VERSION = 20

_OPTIONS = frozenset(("texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"))


@dataclass(frozen=True, slots=True)
class Header:
    """The ``.version`` as (major, minor), the first target, the other words of ``.target``.

    ``start`` is the offset of the header in the text.
    """

    version: tuple[int, int]
    target: str
    options: tuple[str, ...]
    address_size: int
    start: int = 0


def read_header(source: SourceFile, problems: Problems) -> tuple[Header | None, int]:
    """Returns the header and the offset past it; None if the file cannot be PTX."""
    text = source.text
    start = statements.skip(text, len(text) - len(text.removeprefix("\ufeff")))
    directives = _HEADER.match(text, start)
    if directives is None:
        _no_version(text, start, problems)
        return None, start
    try:
        tree = parse_rule(directives.group(), "header")
    except UnexpectedInput as error:
        if ".target" not in directives.group():
            message = "no .target directive after .version"
            help_text = "the second directive is, e.g., '.target sm_90'; neither ends with ';'"
            problems.add("PW109", message, (start, directives.end()), help_text)
        else:
            problems.add_unread(error, start, directives.end())
        return None, directives.end()
    words = tokens(tree)
    version = _version(words[0], start, problems)
    names = [word for word in words if word.type == "NAME"]
    for number, name in enumerate(names):
        reason, help_text = _unfit(names[:number], name, version)
        if reason:
            place = start + (name.start_pos or 0)
            problems.add("PW110", reason, (place, place + len(name)), help_text)
    size = 64
    for word in words:
        if word.type == "INT":
            size = _address_size(word, start, problems)
    options = tuple(str(name) for name in names[1:])
    return Header(version, str(names[0]), options, size, start), directives.end()


def _address_size(word: Token, start: int, problems: Problems) -> int:
    """Returns the bits of an address, in any spelling of the number; 64 after an error."""
    place = start + (word.start_pos or 0)
    try:
        value = integer_value(word)
    except LiteralError:
        value = 0
    if value in (32, 64):
        return value
    message, help_text = "illegal value of .address_size", "it is 32 or 64"
    problems.add("PW109", message, (place, place + len(word)), help_text)
    return 64


def _no_version(text: str, start: int, problems: Problems) -> None:
    place = (min(start, max(0, len(text) - 1)), start + 1)
    if re.search(r"^[ \t]*\.version\b", text, re.MULTILINE):
        message = "the first directive of a PTX file must be .version"
        problems.add("PW109", message, place, "move .version and .target to the top")
    elif re.search(r"\.(?:entry|func)\b", text):
        message = "no .version directive at the start of the file"
        problems.add(
            "PW109", message, place, "begin with, e.g., '.version 8.8' and '.target sm_90'"
        )
    else:
        message = "not a PTX file: it has no .version directive"
        problems.add("PW109", message, place, "PTX is made with 'nvcc -ptx kernel.cu'")


def _version(word: Token, start: int, problems: Problems) -> tuple[int, int]:
    """Returns the two numbers of ``.version``; (0, 0) after an error: no such version."""
    numbers = word[:_LONGEST_VERSION].partition(".")
    major, minor = int(numbers[0]), int(numbers[2] or "0")
    is_short = len(word) <= _LONGEST_VERSION
    if is_short and 0 < major < len(_LAST_MINORS) and minor <= _LAST_MINORS[major]:
        return major, minor
    place = start + (word.start_pos or 0)
    help_text = "versions are 1.0 to 9.0, as nvcc writes them, e.g. '.version 8.8'"
    message = f"there is no PTX ISA {word[:_LONGEST_VERSION]}"
    problems.add("PW109", message, (place, place + len(word)), help_text)
    return 0, 0


def _unfit(before: Sequence[str], name: str, version: tuple[int, int]) -> tuple[str, str]:
    """Returns why a word of ``.target`` cannot follow these, and a remedy; empty if it can."""
    needed = _NEEDED.get(name)
    if needed is not None:
        if version == (0, 0) or version >= needed:
            return "", ""
        return f"{name} needs .version {needed[0]}.{needed[1]} or later", "compile it anew"
    if name not in _OPTIONS:
        kin = "targets are sm_75, sm_80, sm_86, sm_90, sm_90a, sm_100, sm_120 and their kin"
        return f"unknown target '{name}'", kin
    if not before:
        return f"'{name}' is no architecture", "the first word of .target is one, e.g. sm_90"
    if name.startswith("texmode") and any(word.startswith("texmode") for word in before):
        return "a module has one texture mode", "leave one of them"
    if name == "map_f64_to_f32" and any(_NEEDED.get(word, (0, 0)) > (1, 2) for word in before):
        return "map_f64_to_f32 is for architectures before sm_13", "leave it out"
    return "", ""
