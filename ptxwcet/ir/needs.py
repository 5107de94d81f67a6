"""What instructions, special registers and directives need of ``.version`` and ``.target``.

The table ``needs.json`` has, for each opcode (``*``: for all of them, ``%``: for special registers,
``.reg`` and the like: for directives), what is needed, and the words that need it. Words that are
needed together are joined by ``+``; ``""`` stands for the opcode without any. Besides modifiers,
``f32@2`` is a second type, ``#3`` a number of operands, ``|`` a pair of results and ``_`` a result
that is thrown away. ``benchmarks/needed_headers.py`` makes the table of the verdicts of ptxas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path

from ptxwcet.ir.words import count_spaces, is_type
from ptxwcet.support.records import dataclass

Version = tuple[int, int]
_ALL = (99, 99)
_RENAMED = {101: 110}
"""The number of an architecture by the one that it had first."""


@dataclass(frozen=True, slots=True)
class Target:
    """The number of a target, its letter and the version of the file: ``sm_90a`` is 90 and ``a``.

    The defaults stand for a target of which everything is taken.
    """

    number: int = 999
    letter: str = ""
    version: Version = _ALL

    @staticmethod
    def read(name: str, version: Version = _ALL) -> Target:
        """Returns the target that a file names, such as ``sm_90a`` or ``compute_75``."""
        found = re.match(r"\w+_(\d+)([af]?)\Z", name)
        return Target() if found is None else Target(int(found[1]), found[2], version)

    @property
    def order(self) -> tuple[int, str]:
        """Sorts targets by what they need of a GPU."""
        return self.number, self.letter


@dataclass(frozen=True, slots=True)
class _Clause:
    """Versions from the first to the last, on some targets: ``7.4 sm_80``, ``..6.3 sm_70-75``."""

    first: Version
    last: Version
    targets: tuple[str, ...]

    @staticmethod
    def read(text: str) -> _Clause:
        words = text.split()
        versions = words.pop(0) if words[0][:3] != "sm_" else ""
        low, is_limited, high = versions.partition("..")
        last = _version(high) if is_limited else _ALL
        return _Clause(_version(low), last, tuple(words) or ("sm_0",))

    def is_for(self, target: Target) -> bool:
        """Returns whether it speaks of a target."""
        number = _RENAMED.get(target.number, target.number)
        for text in self.targets:
            low, dash, high = text[3:].partition("-")
            if not low[-1].isdigit():
                if f"{number}{target.letter}" == low:
                    return True
            elif int(low) <= number <= int(high if dash else "999"):
                return True
        return False

    def reason(self, target: Target) -> str:
        """Returns what a target lacks; empty if it has what is needed."""
        if not self.is_for(target):
            return "needs " + " or ".join(map(_target_text, self.targets))
        if target.version < self.first:
            return "needs PTX {}.{} or later".format(*self.first)
        return "ended with PTX {}.{}".format(*self.last) if target.version > self.last else ""


def _version(text: str) -> Version:
    major, _, minor = (text or "0.0").partition(".")
    return int(major), int(minor)


def _target_text(text: str) -> str:
    low, dash, high = text.partition("-")
    if dash:
        return f"{low} to sm_{high}"
    return f"{low} or higher" if low[-1].isdigit() else low


_Rows = tuple[tuple[frozenset[str], tuple[_Clause, ...]], ...]


@cache
def _table() -> Mapping[str, _Rows]:
    text = Path(__file__).with_name("needs.json").read_text(encoding="utf-8")
    return {name: tuple(_rows(groups)) for name, groups in json.loads(text).items()}


def _rows(groups: Mapping[str, str]) -> Iterator[tuple[frozenset[str], tuple[_Clause, ...]]]:
    for needed, sets in groups.items():
        clauses = tuple(_Clause.read(text) for text in needed.split("; "))
        for words in sets.split(" "):
            yield frozenset(words.split("+") if words else ()), clauses


_ABSENT = {
    "!space": lambda word: count_spaces((word,)) > 0,
    "!rn": frozenset(("rn", "rz", "rm", "rp")).__contains__,
    "!level": frozenset(("base", "level", "grad")).__contains__,
    "!noComplete": "noComplete".__eq__,
}


def words_of(modifiers: Sequence[str], operands: int, marks: str) -> Set[str]:
    """Returns the words of an instruction that the table knows it by.

    ``marks``: those of ``|_${%`` that its operands have.
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
_WORD = re.compile(r'"[^"\n]*"|(\.[a-z]\w*(?:::\w+)*|=|generic\b|\w+(?=\())', re.ASCII)


def directive_words(text: str) -> tuple[str, Set[str]]:
    """Returns the directive that a text is, and the words of it that the table knows it by."""
    words = [word for word in _WORD.findall(text) if word[:1] in (".", "=", "g")]
    return next((word for word in words if word in _DIRECTIVES), ""), frozenset(words)


def unmet(name: str, words: Set[str], target: Target) -> str:
    """Returns what an instruction needs that a target has not; empty if it has all.

    Cost: linear in the rows of the opcode.
    """
    if target == Target():
        return ""
    if not name:
        return ""
    for row in () if name[0] in ".%" else _table()["*"], _table().get(name, ()):
        for needing, clauses in row:
            if needing <= words:
                reasons = [clause.reason(target) for clause in clauses]
                if all(reasons):
                    each = zip(clauses, reasons, strict=True)
                    own = [reason for clause, reason in each if clause.is_for(target)]
                    return f"{_named(name, needing)} {(own or reasons)[0]}"
    return ""


def _named(name: str, needing: Set[str]) -> str:
    words = sorted(needing)
    if name == "%":
        return f"the special register %{words[0]}"
    texts = [_MARKS.get(word[0], "." + word.lstrip(".").partition("@")[0]) for word in words]
    texts = [text.format(word[1:]) for text, word in zip(texts, words, strict=True)]
    return name if not texts else f"{name} with {' and '.join(dict.fromkeys(texts))}"


_MARKS = {"#": "{} operands", "|": "two results", "_": "the result _", "=": "an initial value"}
