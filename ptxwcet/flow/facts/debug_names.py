"""Names of parameters and of members of structs, from the debug information in a text of PTX.

``nvcc -G`` writes it there (DWARF 2): the sections ``.debug_abbrev`` and ``.debug_info``, as
numbers. It knows all types, whatever macros, templates and aliases they are written with.
:func:`with_debug_names` adds these sections to the text of another compilation, in one comment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ptxwcet.flow.facts.cuda_loops import parameter_names
from ptxwcet.flow.facts.cuda_structs import MOST_MEMBERS, Members, members_of_parameters

_SECTION = re.compile(r"\.section\s+\.debug_(abbrev|info)\s*\{([^}]*)\}")
_DATA = re.compile(r"\.b(8|16|32|64)[ \t]+([^\n}]*)")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)")
_PARAMETER = re.compile(r"\.param\b[^,]*?\.[a-z]*(\d+)\s[^,\[]*(?:\[(\d+)\])?")
_LISTED = re.compile(r"^\.section ([\w$.]+)$((?:\n\.(?!section)\w+ .*)*)", re.MULTILINE)
_LISTED_PARAMETER = re.compile(r"^\.parameter 0x[0-9a-f]+ (\d+)$", re.MULTILINE)
# numbers of DWARF: tags, attributes, the bytes that forms have
_AGGREGATES, _ALIASES, _POINTERS, _NUMBERS = (2, 0x13, 0x17), (0x16, 0x26, 0x35), (15, 16), (4, 36)
_ARRAY, _OF_FUNCTION, _MEMBER, _SUBRANGE, _FUNCTION = 0x01, 0x05, 0x0D, 0x21, 0x2E
_NAME, _SIZE, _BITS, _LAST, _COUNT, _PLACE, _TYPE = 0x03, 0x0B, 0x0D, 0x2F, 0x37, 0x38, 0x49
_LINKAGE = 0x2007
_FIXED = {0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x0E: 4, 0x13: 4}
_BLOCKS, _LEB, _TEXT = {0x03: 2, 0x04: 4, 0x0A: 1}, (0x0D, 0x0F, 0x15), 0x08
_BASE_CLASS = "__b_"  # how nvcc names the part of a struct that is a base of it


class DebugParameter(NamedTuple):
    """A parameter: its name, its size in bytes, the members of a struct."""

    name: str
    size: int
    members: Members


class _Entry(NamedTuple):
    tag: int
    values: Mapping[int, Any]  # a number, a text or bytes, as the form of the attribute says
    children: list[_Entry]


@lru_cache(maxsize=4)
def debug_names(text: str) -> Mapping[str, tuple[DebugParameter, ...]]:
    """Returns the parameters of each function in the debug information of a text, by PTX name.

    None where there is none that can be read. Cost: linear in it and in the members.
    """
    parts = _sections(text)
    try:
        return dict(_Reader(parts["abbrev"], parts["info"]).functions())
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        return {}


def with_debug_names(text: str, debug: str, mark: str) -> str:
    """Returns a text with the debug information of another one behind it, after ``mark``."""
    parts = (
        f".section .debug_{name} {{.b8 {','.join(map(str, data))}}}"
        for name, data in _sections(debug).items()
    )
    return f"{text}{mark} {' '.join(parts)}\n"


def loses_names(text: str, source: str) -> bool:
    """Returns whether a source as it is written tells too little of some kernel of a text of PTX,
    or of a listing: the names of its parameters, or the members of a struct.
    """
    kernels = [
        (name, [int(many or int(bits) // 8) for bits, many in _PARAMETER.findall(parameters)])
        for name, parameters in _ENTRY.findall(text)
    ]
    kernels += (
        (name, list(map(int, _LISTED_PARAMETER.findall(head))))
        for name, head in _LISTED.findall(text)
    )
    for name, sizes in kernels:
        structs = {at for at, size in enumerate(sizes) if size not in (1, 2, 4, 8)}
        if len(parameter_names(source, name) or ()) != len(sizes) or (
            structs - members_of_parameters(source, name, sizes).keys()
        ):
            return True
    return False


def _sections(text: str) -> dict[str, bytes]:
    """The bytes of both sections; a label is 0."""
    parts = {}
    for name, body in _SECTION.findall(text):
        data = bytearray()
        for bits, numbers in _DATA.findall(body):
            for number in map(str.strip, numbers.split(",")):
                value = int(number) if number.isdecimal() else 0
                data += (value % (1 << int(bits))).to_bytes(int(bits) // 8, "little")
        parts[name] = bytes(data)
    return parts


class _Reader:
    def __init__(self, abbreviations: bytes, data: bytes) -> None:
        self.data, self.at = abbreviations, 0
        self.forms: dict[int, tuple[int, bool, list[tuple[int, int]]]] = {}
        while code := self.number():
            tag, has_children, pairs = self.number(), self.fixed(1) > 0, list[tuple[int, int]]()
            while any(pair := (self.number(), self.number())):
                pairs.append(pair)
            self.forms[code] = tag, has_children, pairs
        self.data, self.at = data, 11  # behind length, version, place and size of an address
        self.entries: dict[int, _Entry] = {}
        self.layouts: dict[int, tuple[int, Members]] = {}
        self.top = list(self.siblings())

    def raw(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.data):
            raise IndexError
        return self.data[self.at - size : self.at]

    def fixed(self, size: int) -> int:
        return int.from_bytes(self.raw(size), "little")

    def number(self) -> int:
        """A number in LEB128."""
        value = shift = 0
        while (byte := self.fixed(1)) & 0x80:
            value, shift = value | (byte & 0x7F) << shift, shift + 7
        return value | byte << shift

    def value(self, form: int) -> int | str | bytes:
        if form == _TEXT:
            return self.raw(self.data.index(0, self.at) + 1 - self.at)[:-1].decode(
                "utf-8", "replace"
            )
        if form in _LEB:
            return self.number()
        return self.fixed(_FIXED[form]) if form in _FIXED else self.raw(self.fixed(_BLOCKS[form]))

    def siblings(self) -> Iterator[_Entry]:
        while self.at < len(self.data):
            place, code = self.at, self.number()
            if not code:
                return
            tag, has_children, pairs = self.forms[code]
            values = {attribute: self.value(form) for attribute, form in pairs}
            entry = _Entry(tag, values, list(self.siblings()) if has_children else [])
            self.entries[place] = entry
            yield entry

    def functions(self) -> Iterator[tuple[str, tuple[DebugParameter, ...]]]:
        for entry in (one for unit in self.top for one in unit.children if one.tag == _FUNCTION):
            yield (
                entry.values.get(_LINKAGE, entry.values.get(_NAME, "")),
                tuple(
                    DebugParameter(one.values[_NAME], *self.layout(one.values[_TYPE]))
                    for one in entry.children
                    if one.tag == _OF_FUNCTION
                ),
            )

    def layout(self, place: int) -> tuple[int, Members]:
        """The size of a type and its numbers; none of one that is not known, or is in itself."""
        if place not in self.layouts:
            self.layouts[place] = 0, {}
            self.layouts[place] = self.laid_out(self.entries[place])
        return self.layouts[place]

    def laid_out(self, entry: _Entry) -> tuple[int, Members]:
        size = entry.values.get(_SIZE, 0)
        if entry.tag in _ALIASES:
            return self.layout(entry.values[_TYPE])
        if entry.tag in (*_POINTERS, *_NUMBERS):
            size = size or 8
            return size, {0: ("", size)}
        found: dict[int, tuple[str, int]] = {}
        if entry.tag == _ARRAY:
            size, inner = self.layout(entry.values[_TYPE])
            for bound in reversed([one for one in entry.children if one.tag == _SUBRANGE]):
                count = bound.values.get(_COUNT, bound.values.get(_LAST, -1) + 1)
                if count * max(len(inner), 1) > MOST_MEMBERS:
                    raise ValueError
                inner = {
                    size * place + at: (f"[{place}]{path}", width)
                    for place in range(count)
                    for at, (path, width) in inner.items()
                }
                size *= count
            return size, inner
        for one in entry.children if entry.tag in _AGGREGATES else ():
            where, name = one.values.get(_PLACE, b""), one.values.get(_NAME, "")
            # it is a number of bytes behind the beginning; no bit field, nor static
            if one.tag == _MEMBER and _BITS not in one.values and where[:1] == b"\x23":
                offset = sum((byte & 0x7F) << 7 * n for n, byte in enumerate(where[1:]))
                own = "" if not name or name.startswith(_BASE_CLASS) else f".{name}"
                for at, (path, width) in self.layout(one.values[_TYPE])[1].items():
                    found.setdefault(offset + at, (own + path, width))  # of a union the first
            if len(found) > MOST_MEMBERS:
                raise ValueError
        times = Counter(path for path, _ in found.values())  # a base may have a member of that name
        return size, {at: held for at, held in found.items() if times[held[0]] == 1}
