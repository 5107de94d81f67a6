"""Where the members of structs lie that a kernel takes by value, as the CUDA source says.

Read is what has one layout whoever compiles it: structs of numbers, CUDA's vectors, pointers,
arrays with a number of elements, and of other such structs. Of a struct with anything else in it
(functions, bases, bit fields, directives, macros, types that are not known) nothing is said, nor of
one that a directive may leave out, of a name that something else in the source has, too, or of one
whose size is not that of the parameter in the PTX: its words have names by their offsets then.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from ptxwcet.flow.facts.cuda_loops import kernel_declarations

_SIZES = {
    **dict.fromkeys(("bool", "char", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("short", "int16_t", "uint16_t", "half", "__half", "__nv_bfloat16"), 2),
    **dict.fromkeys(("int", "int32_t", "uint32_t", "float", "half2", "__half2"), 4),
    **dict.fromkeys(("double", "int64_t", "uint64_t", "size_t", "long long"), 8),
}
_VECTOR = re.compile(r"u?(char|short|int|float|longlong|double)([1-4])")
_STRUCT = re.compile(
    r"\bstruct\b\s*(?:__align__\s*\(\s*(\d+)\s*\)\s*)?(\w*)\s*\{([^{}]*)\}\s*(\w*)\s*;"
)
_UNCLEAR = re.compile(r"[^\w\s;,*&\[\]=.+-]|\b(?:static|union|operator|template|typedef)\b")
_DECLARED = re.compile(r"(.*?)(\w+)\s*((?:\[\s*[1-9]\d*\s*\])*)", re.DOTALL)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|endif)", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_HEAD = re.compile(r"\b(?:struct|class|union|enum)\b([^;{}]*)\{")
_BASES = re.compile(r"(?<!:):(?!:).*", re.DOTALL)
_END = re.compile(r"\}[^;{}()=]*?\b(\w+)\s*;")
_OTHER = re.compile(
    r"\b(?:typename|class)\s+(\w+)\s*[,>=]|\busing\b[^;{}=]*?\b(\w+)\s*[;=]"
    r"|\btypedef\b(?!\s+struct\s+(\w+)\s+\3\s*;)[^;{}]*\b(\w+)\s*;"
)
"""Names of types that are parameters of templates, or stand for other types."""
_QUALIFIERS = frozenset(("const", "volatile", "struct", "__grid_constant__"))
_POINTER = 8
MOST_MEMBERS = 4096

Members = Mapping[int, tuple[str, int]]
"""By the offset of a number in a struct: how it is written behind the struct, and its size."""


class _Layout(NamedTuple):
    """``members`` are numbers, at their offsets."""

    size: int
    alignment: int
    members: Members


def members_of_parameters(
    source: str, kernel_name: str, sizes: Sequence[int]
) -> Mapping[int, Members]:
    """The members of parameters of a kernel that are structs, by the parameter's index.

    ``sizes`` are those of all parameters in bytes. Nothing is said of a struct of another size, nor
    where declarations disagree. Cost: linear in the source and in the members.
    """
    found: set[tuple[tuple[int, tuple[tuple[int, tuple[str, int]], ...]], ...]] = set()
    for text, declared in kernel_declarations(source, kernel_name):
        if "pragma pack" in text or len(declared) != len(sizes):
            return {}
        layouts = _layouts(text)
        rows = []
        for index, (one, size) in enumerate(zip(declared, sizes, strict=True)):
            match = _DECLARED.fullmatch(one.partition("=")[0].strip())
            layout = None if match is None else _of_type(match[1], layouts)
            if layout is not None and layout.size == size:
                rows.append((index, tuple(layout.members.items())))
        found.add(tuple(rows))
    if len(found) != 1:
        return {}
    return {index: dict(members) for index, members in found.pop()}


def _layouts(text: str) -> Mapping[str, _Layout | None]:
    """The structs of a source in their order; None for what is not clear, or has two layouts."""
    matches = list(_STRUCT.finditer(text))
    layouts: dict[str, _Layout | None] = dict.fromkeys(_of_others(text, matches))
    macros, conditions = set(_MACRO.findall(text)), list(_CONDITION.finditer(text))
    places = [one.start() for one in conditions]
    depths = [0, *accumulate(1 if one[1] == "if" else -1 for one in conditions)]
    for match in matches:
        alignment, own, body, alias = match.groups()
        is_always = depths[bisect(places, match.start())] == 0
        is_clear = is_always and macros.isdisjoint(re.findall(r"\w+", match[0]))
        is_clear = is_clear and not _UNCLEAR.search(body)
        layout = _laid_out(body, int(alignment or 1), layouts) if is_clear else None
        for name in filter(None, (own, alias)):
            layouts[name] = layout if layouts.get(name, layout) == layout else None
    return layouts


def _of_others(text: str, structs: Sequence[re.Match[str]]) -> Iterator[str]:
    """The names of types of which something else than those structs is told."""
    starts, ends = {one.start() for one in structs}, {one.end() for one in structs}
    for head in _HEAD.finditer(text):
        if head.start() not in starts and not head[1].rstrip().endswith(")"):  # of a function
            yield from re.findall(r"\w+", _BASES.sub("", head[1]))
    yield from (one[1] for one in _END.finditer(text) if one.end() not in ends)
    for other in _OTHER.finditer(text):
        yield from filter(None, (other[1], other[2], other[4]))


def _laid_out(body: str, alignment: int, layouts: Mapping[str, _Layout | None]) -> _Layout | None:
    offset = 0
    members: dict[int, tuple[str, int]] = {}
    for declared in _declared(body, layouts):
        if declared is None:
            return None
        name, count, one = declared
        offset = -(-offset // one.alignment) * one.alignment
        if len(members) + max(count, 1) * len(one.members) > MOST_MEMBERS:
            return None
        for place in range(max(count, 1)):
            index = f"[{place}]" if count else ""
            for inside, (path, size) in one.members.items():
                members[offset + inside] = f".{name}{index}{path}", size
            offset += one.size
        alignment = max(alignment, one.alignment)
    return _Layout(-(-offset // alignment) * alignment, alignment, members)


def _declared(
    body: str, layouts: Mapping[str, _Layout | None]
) -> Iterator[tuple[str, int, _Layout] | None]:
    """Name, number of elements (0 for no array) and type of members; None for one not clear."""
    for statement in filter(str.strip, body.split(";")):
        kind = None
        for place, one in enumerate(statement.split(",")):
            match = _DECLARED.fullmatch(one.partition("=")[0].strip())
            dimensions = [] if match is None else re.findall(r"\d+", match[3])
            if match is None or len(dimensions) > 1:
                yield None
                return
            before, star, _ = re.sub("&", "*", match[1]).partition("*")
            if place == 0:
                kind = _of_type(before, layouts)
            elif before.strip():
                kind = None
            held = _number(_POINTER) if star else kind
            yield None if held is None else (match[2], int((dimensions or "0")[0]), held)


def _number(size: int) -> _Layout:
    return _Layout(size, size, {0: ("", size)})


def _of_type(text: str, layouts: Mapping[str, _Layout | None]) -> _Layout | None:
    """The layout of a type as it is written; None if it is not known."""
    words = [one for one in text.split() if one not in _QUALIFIERS]
    if len(words) > 1:  # unsigned char, long long int
        words = [one for one in words if one not in ("signed", "unsigned")] or ["int"]
    if len(words) > 1:
        words = [one for one in words if one != "int"]
    name = " ".join(words)
    if name in ("unsigned", "signed"):
        name = "int"
    if name in layouts:
        return layouts[name]
    if name in _SIZES:
        return _number(_SIZES[name])
    match = _VECTOR.fullmatch(name)
    if name != "dim3" and match is None:
        return None
    kind, count = ("int", 3) if match is None else (match[1], int(match[2]))
    size = _SIZES["long long" if kind == "longlong" else kind]
    members = {size * place: (f".{'xyzw'[place]}", size) for place in range(count)}
    return _Layout(size * count, size if count % 2 else min(size * count, 16), members)
