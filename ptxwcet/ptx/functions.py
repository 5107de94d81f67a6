"""Function heads: where they end in the text, and what they declare."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lark import Token, Tree

from ptxwcet.ir.kernel import Parameter, PerformanceDirective
from ptxwcet.ptx.declarations import Declared, lower_parameter, lower_performance
from ptxwcet.ptx.statements import SKIP, canonical
from ptxwcet.ptx.templates import tokens
from ptxwcet.support.comments import COMMENT, blank_comments

IS_FUNCTION = re.compile(
    rf"(?:\.(?:extern|visible|weak|common)\b{SKIP})?\.(?:entry|func)\b", re.ASCII
)

_HEAD_MARK = re.compile(
    rf'"[^"\n]*+"|{COMMENT}|[(){{;]|\.pragma\b|'
    r"\.(?:visible|extern|weak|common|entry|func|global|const|shared|tex|section|file|alias)\b",
    re.ASCII,
)


def head_end(text: str, start: int) -> int:
    """Where the function head at ``start`` (past its keyword) ends: at ``{``, at ``;`` or at the
    next item. The ``;`` of a ``.pragma`` belongs to the head. Cost: linear in the head.
    """
    depth = 0
    in_pragma = False
    for match in _HEAD_MARK.finditer(text, start):
        mark = match.group()
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
        elif mark == ".pragma":
            in_pragma = True
        elif mark == ";" and in_pragma:
            in_pragma = False
        elif mark in "{;" or (mark[0] == "." and depth <= 0):
            return match.start()
    return len(text)


def function_name(head: str) -> str | None:
    """The name in a function head, past its keyword, read without the grammar; None if none."""
    found = re.match(r"\s*(?:\([^()]*\)\s*)?([\w$%]+)", blank_comments(head), re.ASCII)
    return None if found is None else found[1]


@dataclass(frozen=True, slots=True)
class FunctionHead:
    """What stands before a body or the ``;`` of a prototype."""

    name: Declared
    is_entry: bool
    linkage: str
    attributes: tuple[str, ...]
    results: tuple[tuple[Parameter, Declared], ...]
    parameters: tuple[tuple[Parameter, Declared], ...]
    performance: tuple[PerformanceDirective, ...]


def lower_head(tree: Tree[Token], text: str) -> FunctionHead:
    """The head from its tree; offsets refer to ``text``. Raises LiteralError."""
    linkage = ""
    name: Token | None = None
    attributes: list[str] = []
    groups: dict[str, tuple[tuple[Parameter, Declared], ...]] = {}
    performance = []
    for child in tree.children:
        if isinstance(child, Token):
            name = child
        elif child.data == "linkage":
            linkage = tokens(child)[0][1:]
        elif child.data in ("results", "parameters"):
            groups[str(child.data)] = _parameters(child, text)
        elif child.data == "performance":
            performance.append(lower_performance(child))
        elif child.data == "noreturn":
            attributes.append(".noreturn")
        else:
            attributes.append(_attribute(child))
    assert name is not None
    assert name.start_pos is not None
    return FunctionHead(
        name=Declared(str(name), name.start_pos, name.start_pos + len(name)),
        is_entry=tree.data == "entry_head",
        linkage=linkage,
        attributes=tuple(attributes),
        results=groups.get("results", ()),
        parameters=groups.get("parameters", ()),
        performance=tuple(performance),
    )


def _parameters(tree: Tree[Token], text: str) -> tuple[tuple[Parameter, Declared], ...]:
    found = []
    for index, child in enumerate(tree.children):
        assert isinstance(child, Tree)
        found.append(lower_parameter(child, text, index))
    return tuple(found)


def _attribute(tree: Tree[Token]) -> str:
    """``.abi_preserve n`` or ``.attribute(.unified(1,2))`` as PTX text."""
    if tree.data == "abi":
        return " ".join(tokens(tree))
    values = []
    for child in tree.children:
        first, *numbers = tokens(child)
        values.append(f"{first}({', '.join(numbers)})" if numbers else str(first))
    return canonical(f".attribute({', '.join(values)})")
