"""Which instructions PTX has: the forms of each opcode, and why an instruction is none of them.

A :class:`Form` is a row of data (``permitted_rows.py`` and its like); this module reads its words
and ``permitted_operands.py`` its operands. An opcode without a row is not judged. Source of the
rules: the PTX ISA manual, and ptxas's verdict on every pair of a type and a register
(``benchmarks/semantic_mutants.py`` compares the two).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ptxwcet.ir.opcodes import count_spaces, is_type

_TYPE, _LEADING, _WORDS = range(3)


@dataclass(frozen=True, slots=True)
class Form:
    """Instructions of one kind. All fields are words split at spaces.

    ``words``: modifiers that are no types, in groups ``a|b``: one of the group is written,
    ``[a|b]`` at most one, ``^a|b`` right behind the opcode. ``types`` and ``second``: the choices
    for the first and the second type, ``more`` those for further ones, separated by semicolons.
    A group that stands twice asks for two of its words. ``operands``: one specification each, see
    :mod:`ptxwcet.ir.permitted_operands`. ``documented`` is False for what ptxas takes and the
    manual has not. ``least``: the architecture that it needs, see :mod:`ptxwcet.ir.targets`.
    """

    words: str
    types: str = ""
    operands: str = ""
    second: str = ""
    documented: bool = True
    more: str = ""
    least: int = 0

    def refusal(self, modifiers: Sequence[str]) -> tuple[int, str] | None:
        """What keeps modifiers from being this form, and how far they match; None if they are.

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
    """Modifiers that exclude each other."""

    choice: tuple[str, ...]
    required: bool
    leads: bool

    @staticmethod
    def read(text: str) -> _Group:
        """A group as :class:`Form` spells it."""
        return _Group(tuple(text.strip("[]^").split("|")), text[0] != "[", text[0] == "^")

    def __str__(self) -> str:
        return " or ".join(f".{word}" for word in self.choice)


_REPEATABLE = frozenset({"cc", "approx", "shiftamt", "sync", "sat", "satfinite"})
"""Words that ptxas takes twice."""


_IGNORED = frozenset(
    (
        *("acc::f16", "acc::f32", "b4x16_p64", "b6x16_p32", "box_dim", "element_stride"),
        *("elemtype", "fill_mode", "finite", "global_address", "global_dim", "global_stride"),
        *("infinite", "interleave_layout", "normal", "notanumber", "number", "rank"),
        *("subnormal", "swizzle_atomicity", "swizzle_mode"),
    )
)
"""Words that ptxas overlooks behind an opcode that has no use for them."""


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
    """The forms that have these modifiers, and the nearest reason against them if there are none.

    Cost: linear in the words of the forms.
    """
    refusals = [(form, form.refusal(modifiers)) for form in forms]
    found = [form for form, refusal in refusals if refusal is None]
    reasons = [refusal for _, refusal in refusals if refusal is not None]
    return found, "" if found else _nearest(reasons)


def _nearest(reasons: Sequence[tuple[int, str]]) -> str:
    nearest, text = max(reasons, key=lambda one: one[0])
    if nearest != _LEADING:
        return text
    words = [word for far, group in reasons if far == _LEADING for word in group.split(" or ")]
    return " or ".join(dict.fromkeys(words)) + " is to follow the opcode"
