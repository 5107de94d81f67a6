"""Classifies the words after an opcode: types and state spaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ptxwcet.ir.op_classes import Space

_SPACES: Mapping[str, Space] = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "shared::cta": Space.SHARED,
    "shared::cluster": Space.SHARED,
    "local": Space.LOCAL,
    "param": Space.PARAM,
    "param::entry": Space.PARAM,
    "param::func": Space.PARAM,
    "const": Space.CONST,
}

_TYPE_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("f16", "f16x2", "bf16", "bf16x2"), "half"),
    **dict.fromkeys(("f32", "f32x2", "tf32"), "single"),
    "f64": "double",
}

_TYPE = re.compile(r"(?:(?:[sub]|b?f|tf)\d+(?:x\d+)?|pred)\Z")
_NUMERIC_TYPE = re.compile(r"(?:[subf]|bf|tf)(\d+)\Z")
_WIDTHS = frozenset({"1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024"})


def state_space(modifiers: Iterable[str]) -> Space:
    """Returns the first state space among the modifiers, or generic (PTX ISA, ``ld``)."""
    for modifier in modifiers:
        space = _SPACES.get(modifier)
        if space is not None:
            return space
        if modifier.startswith("const["):
            return Space.CONST
    return Space.GENERIC


def type_kind(modifiers: Iterable[str]) -> str:
    """Returns ``half``, ``single``, ``double`` or ``integer`` by the first type modifier."""
    for modifier in modifiers:
        if _TYPE.match(modifier):
            return _TYPE_KINDS.get(modifier, "integer")
    return "integer"


def is_type(modifier: str) -> bool:
    """Returns whether a modifier is a type such as ``u32``, ``f16x2`` or ``pred``."""
    return _TYPE.match(modifier) is not None


def count_types(modifiers: Iterable[str]) -> int:
    """Returns the number of modifiers that are types such as ``u32``, ``f16x2`` or ``pred``."""
    return sum(is_type(modifier) for modifier in modifiers)


def count_spaces(modifiers: Iterable[str]) -> int:
    """Returns the number of modifiers that are state spaces."""
    return sum(modifier in _SPACES for modifier in modifiers)


def is_impossible_type(modifier: str) -> bool:
    """Returns whether a modifier looks like a type but has an impossible width (``s33``)."""
    match = _NUMERIC_TYPE.match(modifier)
    return match is not None and match.group(1) not in _WIDTHS
