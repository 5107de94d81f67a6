"""Checks the requirements of instructions and directives on ``.version`` and ``.target``.

The table ``needs.json`` has, for each opcode (``*``: for all of them, ``%``: for special registers,
``.reg`` and the like: for directives), requirements and the words that have them. Words that are
needed together are joined by ``+``; ``""`` is the opcode without any. Besides modifiers, ``f32@2``
is a second type, ``#3`` a number of operands, ``|`` a pair of results and ``_`` a discarded result.
``benchmarks/needed_headers.py`` makes the table from ptxas's verdicts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path

from ptxwcet.ir.words import count_spaces, is_type
from ptxwcet.support.records import dataclass

Version = tuple[int, int]
_ALL = (99, 99)
_RENAMED = {101: 110}
"""The current number of an architecture by its former number."""


@dataclass(frozen=True, slots=True)
class Target:
    """The number of a target, its letter and the version of the file: ``sm_90a`` is 90 and ``a``.

    The defaults are a target that accepts everything.
    """

    number: int = 999
    letter: str = ""
    version: Version = _ALL

    @staticmethod
    def read(name: str, version: Version = _ALL) -> Target:
        """Returns the target that a file names, such as ``sm_90a`` or ``compute_75``."""
        match = re.match(r"\w+_(\d+)([af]?)\Z", name)
        return Target() if match is None else Target(int(match[1]), match[2], version)

    @property
    def order(self) -> tuple[int, str]:
        """The sort key of targets by their requirements on a GPU."""
        return self.number, self.letter


_Clause = tuple[Version, Version, tuple[str, ...]]
"""The first and last version, and the targets: ``7.4 sm_80``, ``..6.3 sm_70-75``, ``sm_90a``."""

_Rows = tuple[tuple[frozenset[str], tuple[_Clause, ...]], ...]


@cache
def _table() -> Mapping[str, _Rows]:
    text = Path(__file__).with_name("needs.json").read_text(encoding="utf-8")
    return {name: tuple(_rows(groups)) for name, groups in json.loads(text).items()}


def _rows(groups: Mapping[str, str]) -> Iterator[tuple[frozenset[str], tuple[_Clause, ...]]]:
    for needed, sets in groups.items():
        clauses = tuple(map(_clause, needed.split("; ")))
        for words in sets.split(" "):
            yield frozenset(words.split("+") if words else ()), clauses


def _clause(text: str) -> _Clause:
    words = text.split()
    versions = "" if words[0].startswith("sm_") else words.pop(0)
    low, _, high = versions.partition("..")
    return _version(low, (0, 0)), _version(high, _ALL), tuple(words) or ("sm_0",)


def _version(text: str, default: Version) -> Version:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if text else default


def _is_for(texts: Iterable[str], target: Target) -> bool:
    number = _RENAMED.get(target.number, target.number)
    for text in texts:
        low, dash, high = text[3:].partition("-")
        if not low.isdigit():
            if f"{number}{target.letter}" == low:
                return True
        elif int(low) <= number <= int(high if dash else 999):
            return True
    return False


_ABSENT = {
    "!space": lambda word: count_spaces((word,)) > 0,
    "!rn": frozenset(("rn", "rz", "rm", "rp")).__contains__,
    "!level": frozenset(("base", "level", "grad")).__contains__,
    "!noComplete": "noComplete".__eq__,
    "!sync": "sync".__eq__,
}


def words_of(modifiers: Sequence[str], operands: int, marks: str) -> Set[str]:
    """Returns the words of an instruction under which the table lists it.

    ``marks`` are the characters of ``|_`` that its operands have.
    """
    types = [word for word in modifiers if is_type(word)]
    places = [f"{name}@{place}" for place, name in enumerate(types, 1)] if len(types) > 1 else []
    absent = [name for name, is_of in _ABSENT.items() if not any(map(is_of, modifiers))]
    return frozenset((*modifiers, *places, f"#{operands}", *marks, *absent))


_DIRECTIVES = frozenset(
    (
        *(".reg", ".entry", ".func", ".global", ".const", ".shared", ".local", ".param", ".tex"),
        *(".alias", ".pragma", ".callprototype", ".calltargets", ".branchtargets"),
    )
)
_IGNORED = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_WORD = re.compile(r"\.[a-z]\w*(?:::\w+)*", re.ASCII)
_INITIAL = {
    "=": re.compile(""),
    "generic": re.compile(r"\bgeneric\b"),
    "mask": re.compile(r"\b\d\w* *\(", re.ASCII),
    "address": re.compile(r"(?<![\w.$%])[A-Za-z_$%]", re.ASCII),
}


def directive_words(text: str) -> tuple[str, Set[str]]:
    """Returns the directive of a text, and its words under which the table lists it."""
    head, mark, initial = _IGNORED.sub(" ", text).partition("=")
    words = _WORD.findall(head)
    marks = [name for name, pattern in _INITIAL.items() if mark and pattern.search(initial)]
    return next((word for word in words if word in _DIRECTIVES), ""), {*words, *marks}


def unmet(name: str, words: Set[str], target: Target) -> str:
    """Returns the requirement of an instruction that a target lacks; empty if it has all.

    Cost: linear in the rows of the opcode.
    """
    if not name or target == Target():
        return ""
    for rows in () if name[0] in ".%" else _table()["*"], _table().get(name, ()):
        for needing, clauses in rows:
            if needing <= words:
                reason = _reason(clauses, target)
                if reason:
                    return f"{_named(name, needing)} {reason}"
    return ""


def _reason(clauses: Sequence[_Clause], target: Target) -> str:
    """Returns the lacking feature, and the file's own target; empty if the requirement is met."""
    texts = [text for *_, each in clauses for text in each]
    if not _is_for(texts, target):
        lacking = _lacking(texts, target.number)
        return f"{lacking}; the file says .target sm_{target.number}{target.letter}"
    own = [(first, last) for first, last, each in clauses if _is_for(each, target)]
    if any(first <= target.version <= last for first, last in own):
        return ""
    first, last = own[0]
    is_old = target.version < first
    words = "needs PTX {}.{} or later" if is_old else "ended with PTX {}.{}"
    lacking = words.format(*(first if is_old else last))
    return "{}; the file says .version {}.{}".format(lacking, *target.version)


def _lacking(texts: Iterable[str], number: int) -> str:
    """Returns the feature that a target of this number lacks, if none of these texts covers it."""
    ranges = [text[3:].partition("-") for text in texts if text[-1].isdigit()]
    above = [int(low) for low, _, _ in ranges if int(low) > number]
    if above:
        return f"needs sm_{min(above)} or higher"
    variants = [text for text in dict.fromkeys(texts) if not text[-1].isdigit()]
    if variants:
        return f"needs {' or '.join(variants)}"
    return f"ended with sm_{max(int(high) for _, _, high in ranges)}"


def _named(name: str, needing: Set[str]) -> str:
    words = sorted(needing)
    if name == "%":
        return f"the special register %{words[0]}"
    texts = [_MARKS.get(word) or "." + word.lstrip(".").partition("@")[0] for word in words]
    texts = [re.sub(r"^\.#(\d)", r"\1 operands", text) for text in texts]
    return name if not texts else f"{name} with {' and '.join(dict.fromkeys(texts))}"


_MARKS = {
    "|": "two results",
    "_": "the result _",
    **dict.fromkeys(("=", "address", "generic", "mask"), "this initial value"),
    "!space": "no state space",
    "!rn": "no rounding",
    "!level": "no level of detail",
    "!noComplete": "no .noComplete",
    "!sync": "no .sync",
}
