"""What mangled names consist of: codes, types and expressions in parts, and how parts combine."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long",
    "m": "unsigned long", "x": "long long", "y": "unsigned long long", "n": "__int128",
    "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double", "g": "__float128",
    "z": "...", "Dn": "decltype(nullptr)", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t",
    "Dh": "half", "Da": "auto",
}  # fmt: skip
LIBRARY = {
    "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream",
    "o": "std::ostream", "d": "std::iostream",
}  # fmt: skip
OPERATORS = {
    "ad": "&", "aN": "&=", "aS": "=", "aa": "&&", "an": "&", "cl": "()", "cm": ",", "co": "~",
    "dV": "/=", "de": "*", "dv": "/", "eO": "^=", "eo": "^", "eq": "==", "ge": ">=", "gt": ">",
    "ix": "[]", "lS": "<<=", "le": "<=", "ls": "<<", "lt": "<", "mI": "-=", "mL": "*=", "mi": "-",
    "ml": "*", "mm": "--", "ne": "!=", "ng": "-", "nt": "!", "oR": "|=", "oo": "||", "or": "|",
    "pL": "+=", "pl": "+", "pp": "++", "ps": "+", "pt": "->", "rM": "%=", "rS": ">>=", "rm": "%",
    "rs": ">>",
}  # fmt: skip
BINARY = frozenset((
    "aa", "an", "dv", "eo", "eq", "ge", "gt", "le", "ls", "lt", "mi", "ml", "ne", "oo", "or", "pl",
    "rm", "rs",
))  # fmt: skip
UNARY = frozenset(("ad", "co", "ng", "nt"))
SUFFIXES = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
QUALIFIERS = {"K": "const", "V": "volatile", "r": "__restrict__"}
_POINTER = re.compile(r"[*&]((?: (?:const|volatile|__restrict__))*)$")


class Malformed(Exception):
    """The text is no mangled name."""


class Unknown(Exception):
    """The text may be one, but has something in it that is not spelled out here."""


class Part(NamedTuple):
    """A type or an expression: what stands left and right of a declared name.

    ``is_bound``: a function or an array, whose pointers need parentheses.
    """

    left: str
    right: str = ""
    is_bound: bool = False

    @property
    def text(self) -> str:
        """The type without a name in it."""
        return self.left + self.right


class Pack(NamedTuple):
    """Template arguments that one parameter stands for."""

    parts: tuple[Part, ...]
    is_expanded: bool = True  # not a pattern whose repetitions are still to come


Value = Part | Pack


class Name(NamedTuple):
    """A name that was read; ``arguments`` are those that it ends with, if it does."""

    scopes: tuple[str, ...]
    arguments: str = ""
    tags: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()  # of the arguments
    suffix: str = ""  # of a member function: const

    @property
    def text(self) -> str:
        """The name as it is written."""
        return "::".join(self.scopes) + self.arguments


def each(value: Value, change: Callable[[Part], Part]) -> Value:
    """The value with each of its parts changed."""
    if isinstance(value, Pack):
        return value._replace(parts=tuple(map(change, value.parts)))
    return change(value)


def pointer(part: Part, sign: str) -> Part:
    """What points or refers to a type; a reference to a reference is one."""
    if sign in ("&", "&&") and part.left.endswith("&"):
        is_right = sign == "&&" and part.left.endswith("&&")
        return part if is_right else part._replace(left=part.left.rstrip("&") + "&")
    if part.is_bound:
        return Part(f"{part.left}({sign}", f"){part.right}")
    return Part(part.left + sign, part.right)


def qualified(part: Part, words: list[str]) -> Part:
    """A type with qualifiers: ``const int``, ``int* const``."""
    if part.is_bound and part.right.startswith("("):
        raise Unknown
    behind = _POINTER.search(part.left)
    has = part.left.split("<")[0].split() if behind is None else behind.group(1).split()
    shown = " ".join(one for one in QUALIFIERS.values() if one in words and one not in has)
    if not shown:
        return part
    left = f"{shown} {part.left}" if behind is None else f"{part.left} {shown}"
    return part._replace(left=left)
