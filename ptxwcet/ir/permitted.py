"""Defines the forms of each opcode, and finds the reason if an instruction has none of them.

A :class:`Form` is a row of data after its opcode (``instruction_set.py``); this module reads its
words, and ``permitted_operands.py`` compares operands with them. An opcode without a form is not
judged. Source of the rules: the PTX ISA manual, and ptxas's verdict on every pair of a type and a
register (``benchmarks/semantic_mutants.py`` compares the two).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache

from ptxwcet.ir.words import count_spaces, is_type
from ptxwcet.support.records import dataclass

_TYPE, _LEADING, _WORDS = range(3)


@dataclass(frozen=True, slots=True)
class Form:
    """Instructions of one kind. All fields are words split at spaces.

    ``words``: modifiers that are not types, in groups ``a|b``: exactly one of the group is written,
    ``[a|b]`` at most one, ``^a|b`` directly after the opcode; a group that occurs twice requires
    two. ``types`` and ``second``: the choices for the first and the second type, ``more`` those for
    further types, separated by semicolons. ``operands``: one specification each, see
    :func:`specifications`. ``documented`` is False for forms that ptxas takes and the manual does
    not list.
    """

    words: str
    types: str = ""
    operands: str = ""
    second: str = ""
    documented: bool = True
    more: str = ""

    def refusal(self, modifiers: Sequence[str]) -> tuple[int, str] | None:
        """Returns why modifiers are not this form, and how far they match; None if they are.

        Where another word is to follow the opcode, the text is the choice of words.
        """
        types = [word for word in modifiers if is_type(word)]
        choices = [
            choice.split() for choice in (self.types, self.second, *self.more.split(";")) if choice
        ]
        if len(types) != len(choices) or any(
            name not in choice for name, choice in zip(types, choices, strict=True)
        ):
            return _TYPE, "type ." + ".".join(types) if types else "no type"
        groups = [_Group.read(text) for text in self.words.split()]
        for group in groups:
            if group.leads and (not modifiers or modifiers[0] not in group.choice):
                return _LEADING, str(group)
        spaces = [group for group in groups if group.required and count_spaces(group.choice)]
        written = [word for word in modifiers if count_spaces((word,))]
        if len(spaces) == len(written) > 1:
            for group, word in zip(spaces, written, strict=True):
                if word not in group.choice:
                    return _WORDS, f"{group} is expected where .{word} stands"
        return _wrong_words([word for word in modifiers if not is_type(word)], groups)


@dataclass(frozen=True, slots=True)
class _Group:
    """A group of modifiers that exclude each other."""

    choice: tuple[str, ...]
    required: bool
    leads: bool

    @staticmethod
    def read(text: str) -> _Group:
        """Reads a group as :class:`Form` spells it."""
        return _Group(tuple(text.strip("[]^").split("|")), text[0] != "[", text[0] == "^")

    def __str__(self) -> str:
        return " or ".join(f".{word}" for word in self.choice)


_REPEATABLE = frozenset({"cc", "approx", "shiftamt", "sync", "sat", "satfinite"})
"""The words that ptxas takes twice."""


_IGNORED = frozenset(
    (
        *("acc::f16", "acc::f32", "b4x16_p64", "b6x16_p32", "box_dim", "element_stride"),
        *("elemtype", "fill_mode", "finite", "global_address", "global_dim", "global_stride"),
        *("infinite", "interleave_layout", "normal", "notanumber", "number", "rank"),
        *("subnormal", "swizzle_atomicity", "swizzle_mode"),
    )
)
"""The words that ptxas ignores after an opcode that does not use them."""


def _wrong_words(words: Sequence[str], groups: Sequence[_Group]) -> tuple[int, str] | None:
    left = list(words)
    for group in dict.fromkeys(groups):
        members = [word for word in left if word in group.choice]
        wanted = groups.count(group)
        if group.required and len(members) < wanted:
            return _WORDS, f"no {group}"
        if len(members) > wanted and (len(set(members)) > 1 or members[0] not in _REPEATABLE):
            return _WORDS, "modifiers ." + ", .".join(sorted(members)) + " together"
        left = [word for word in left if word not in group.choice]
    left = [word for word in left if word not in _IGNORED]
    if left:
        return _WORDS, "modifier ." + ", .".join(sorted(set(left)))
    return None


def matching(forms: Iterable[Form], modifiers: Sequence[str]) -> tuple[list[Form], str]:
    """Returns the forms with these modifiers; without such forms, also the nearest reason against.

    Cost: linear in the words of the forms.
    """
    refusals = [(form, form.refusal(modifiers)) for form in forms]
    matches = [form for form, refusal in refusals if refusal is None]
    reasons = [refusal for _, refusal in refusals if refusal is not None]
    return matches, "" if matches else _nearest(reasons)


def _nearest(reasons: Sequence[tuple[int, str]]) -> str:
    nearest, text = max(reasons, key=lambda ranked: ranked[0])
    if nearest != _LEADING:
        return text
    words = [word for far, group in reasons if far == _LEADING for word in group.split(" or ")]
    return " or ".join(dict.fromkeys(words)) + " is to follow the opcode"


# --- operands -------------------------------------------------------------------------------------


class Mark(StrEnum):
    """A mark before the type in the word of an operand."""

    OPTIONAL = "?"  # the operand may be omitted
    WRITTEN = "="
    NEGATABLE = "!"
    RELAXED = "~"  # accepts wider registers too
    PACKED = "%"  # accepts a packed vector too
    SYMBOL = "&"  # accepts a variable too
    VECTOR = "{"  # with "}": its size is from ``.v2``
    CLOSED = "}"
    LITERAL = "$"  # accepts only a literal
    WARPS = "*"  # literals are multiples of the warp size
    SIGNED = "-"  # the operand may have a minus
    LOOSE = "<"  # as {}; without ``.v2`` a vector of any size that is wide enough
    AT_LEAST = "+"  # a vector of at least this size


@dataclass(frozen=True, slots=True)
class Specification:
    """An operand of a form, decoded from its word: see :func:`specifications`."""

    marks: str
    type: str
    second: str
    size: int
    fragment: str
    selector: str
    literals: range | None
    no_literal: bool

    def has(self, *marks: Mark) -> bool:
        """Returns whether one of some marks precedes the type."""
        return any(mark in self.marks for mark in marks)


def _specification(text: str) -> Specification:
    rest = text.lstrip("".join(Mark))
    marks, size, fragment = text[: len(text) - len(rest)], 0, ""
    if (counted := re.match(r"(\d+)x", rest)) is not None:
        size, rest = int(counted[1]), rest[counted.end() :]
    elif rest[2:3] == ":":
        fragment, rest = rest[:2], rest[3:]
    rest, _, selector = rest.partition(".")
    name, mark, limits = rest.partition("#")
    first, _, second = name.partition("/")
    literals = None
    if limits:
        low, high, *step = map(int, limits.split(":"))
        literals = range(low, high + 1, *step)
    no_literal = mark != "" and not limits
    return Specification(marks, first, second, size, fragment, selector, literals, no_literal)


@cache
def specifications(text: str) -> tuple[tuple[Specification, ...], int]:
    """Returns the operands of a form, and their least number.

    An operand's word: marks, the type (``1`` and ``2`` the instruction's own, ``W`` twice the
    first's width), ``/type`` for the other half of a pair, ``#low:high`` for literals,
    ``#low:high:step`` for those at such distances (only ``#`` excludes literals), ``.s`` and the
    like for parts of a register that may be selected. ``4x`` before the type is a vector of four;
    ``MK:`` the part of a matrix of M rows and K columns that a thread holds, by the shape among the
    modifiers (a small letter: half the size, for a sparse matrix). ``[]`` is an address, ``[]3`` an
    address followed by three coordinates; ``[t]f2`` a texture (``[s]``: a surface) with at least
    two coordinates that are floats (``s``: integers, ``i``: an index before them).
    """
    operands = tuple(map(_specification, text.split()))
    return operands, sum(not operand.has(Mark.OPTIONAL) for operand in operands)


@cache
def operand_counts(forms: tuple[Form, ...]) -> tuple[tuple[int, int], int]:
    """Returns the least and largest number of operands, and the largest of written ones."""
    decoded = [specifications(form.operands) for form in forms]
    most = max(len(operands) for operands, _ in decoded)
    written = max(sum(operand.has(Mark.WRITTEN) for operand in operands) for operands, _ in decoded)
    return (min(least for _, least in decoded), most), written


@cache
def gives_pairs(forms: tuple[Form, ...]) -> bool:
    """Returns whether one of the forms has an operand that is a pair of results."""
    return any(operand.second for form in forms for operand in specifications(form.operands)[0])


@cache
def depends_on_literals(forms: tuple[Form, ...]) -> bool:
    """Returns whether the value of an integer literal decides if operands fit a form."""
    return any(
        operand.literals is not None or operand.has(Mark.WARPS)
        for form in forms
        for operand in specifications(form.operands)[0]
    )
