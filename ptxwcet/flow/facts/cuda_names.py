"""Parameter names of a CUDA kernel, read from its source text.

PTX numbers parameters (``k_param_3``); people know them as ``K``. This module finds the declaration
of a ``__global__`` function in CUDA C++ text and returns the names in order. It reads declarations
only as far as that takes: comments and literals are skipped, macros are not expanded. Finding
nothing, or two declarations that disagree, is an honest None: names are then simply not available.
"""

from __future__ import annotations

import re

from ptxwcet.support.demangling import source_name

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_GLOBAL = re.compile(r"__global__\b")
_NAME_BEFORE_PARENTHESIS = re.compile(r"([A-Za-z_]\w*)\s*\(")
_ATTRIBUTES = frozenset({"__launch_bounds__", "__maxnreg__", "__cluster_dims__", "__attribute__"})
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def parameter_names(source: str, kernel_name: str) -> tuple[str, ...] | None:
    """Names of the parameters of the kernel whose PTX name is ``kernel_name``, or None.

    C++ mangled names (``_Z4sgemPKfi``, nested and template ones too) are matched by their last
    identifier. Cost: linear in the source.
    """
    wanted = source_name(kernel_name)
    text = _COMMENT.sub(" ", source)
    candidates: set[tuple[str, ...]] = set()
    for match in _GLOBAL.finditer(text):
        declaration = _declaration_at(text, match.end())
        if declaration is not None and declaration[0] == wanted:
            candidates.add(declaration[1])
    return candidates.pop() if len(candidates) == 1 else None


def _declaration_at(text: str, start: int) -> tuple[str, tuple[str, ...]] | None:
    """Function name and parameter names of the declaration that follows ``__global__``."""
    position = start
    while match := _NAME_BEFORE_PARENTHESIS.search(text, position):
        if any(c in text[position : match.start()] for c in ";{}"):
            return None
        inside, end = _balanced(text, match.end())
        if match.group(1) in _ATTRIBUTES:
            position = end
            continue
        names = [_parameter_name(part) for part in _split_commas(inside)]
        if any(name is None for name in names):
            return None
        return match.group(1), tuple(name for name in names if name is not None)
    return None


def _balanced(text: str, start: int) -> tuple[str, int]:
    """The text up to the parenthesis that closes one opened just before ``start``."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return text[start:position], position + 1
    return text[start:], len(text)


def _split_commas(text: str) -> list[str]:
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[begin:position])
            begin = position + 1
    parts.append(text[begin:])
    return [part for part in parts if part.strip() and part.strip() != "void"]


def _parameter_name(declaration: str) -> str | None:
    plain = declaration.split("=")[0]
    plain = re.sub(r"\[[^\]]*\]", " ", plain)
    pointer = re.search(r"\(\s*[*&]\s*(?:__restrict__\s*)?([A-Za-z_]\w*)", plain)
    if pointer is not None:
        return pointer.group(1)
    words = _IDENTIFIER.findall(plain)
    return words[-1] if words else None
