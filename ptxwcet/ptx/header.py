"""The first directives of a file: ``.version``, ``.target``, ``.address_size``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lark import Token, UnexpectedInput

from ptxwcet.ptx import statements
from ptxwcet.ptx.grammar import parse_rule
from ptxwcet.ptx.literals import LiteralError, integer_value
from ptxwcet.ptx.problems import Problems
from ptxwcet.ptx.statements import SKIP
from ptxwcet.ptx.templates import tokens
from ptxwcet.support.source import SourceFile

_HEADER = re.compile(
    rf"\.version\b{SKIP}[\w.]*(?:{SKIP}\.target\b(?:{SKIP}\w+(?:{SKIP},{SKIP}\w+)*+)?)*+"
    rf"(?:{SKIP}\.address_size\b(?:{SKIP}\w+)?)?",
    re.ASCII,
)

_ARCHITECTURES = (
    *("10", "11", "12", "13", "20", "21", "30", "32", "35", "37", "50", "52", "53"),
    *("60", "61", "62", "70", "72", "75", "80", "86", "87", "88", "89", "90", "90a"),
    *(f"{number}{kind}" for number in (100, 101, 103, 110, 120, 121) for kind in ("", "a", "f")),
)
TARGETS = frozenset(f"{kind}_{number}" for kind in ("sm", "compute") for number in _ARCHITECTURES)
"""Names that ``.target`` takes."""

_LONGEST_VERSION = 20

_OPTIONS = frozenset(("texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"))


@dataclass(frozen=True, slots=True)
class Header:
    """``.version`` as (major, minor), the first target, the other words of ``.target``."""

    version: tuple[int, int]
    target: str
    options: tuple[str, ...]
    address_size: int


def read_header(source: SourceFile, problems: Problems) -> tuple[Header | None, int]:
    """The header and the offset behind it; None if the file cannot be PTX."""
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
            problems.add_syntax(error, start, (start, directives.end()))
        return None, directives.end()
    words = tokens(tree)
    major, _, minor = words[0].partition(".")
    if len(words[0]) > _LONGEST_VERSION:
        place = start + (words[0].start_pos or 0)
        message = "a version has two small numbers"
        problems.add("PW109", message, (place, place + len(words[0])), "e.g. '.version 8.8'")
        major = minor = "0"
    names = [word for word in words if word.type == "NAME"]
    for name in names:
        if name not in TARGETS and name not in _OPTIONS:
            _unknown_target(str(name), start + (name.start_pos or 0), problems)
    size = 64
    for word in words:
        if word.type == "INT":
            size = _address_size(word, start, problems)
    options = tuple(str(name) for name in names[1:])
    version = (int(major), int(minor or "0"))
    return Header(version, str(names[0]), options, size), directives.end()


def _address_size(word: Token, start: int, problems: Problems) -> int:
    """The bits of an address, in any spelling of the number; 64 after an error."""
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


def _unknown_target(name: str, start: int, problems: Problems) -> None:
    problems.add(
        "PW110",
        f"unknown target '{name}'",
        (start, start + len(name)),
        "targets are sm_75, sm_80, sm_86, sm_90, sm_90a, sm_100, sm_120 and their kin",
    )
