"""What the text of the CUDA source says, without a compiler: its loops, names of parameters.

Of loops, enough C++ to follow blocks, loops and branches; macros are not expanded. What it says is
used to refuse, never to accept: it may be wrong about a source that hides its loops.

PTX numbers parameters (``k_param_3``); people know them as ``K``. Of a ``__global__`` function the
declaration is read as far as names take: comments and literals are skipped, macros are not
expanded. Finding nothing, or two declarations that disagree, is an honest None: names are then
simply not available.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ptxwcet.support.demangling import source_name
from ptxwcet.support.records import dataclass

_HIDDEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_TOKEN = re.compile(r"[A-Za-z_]\w*|[(){};]")
_CHOICES = frozenset({"if", "switch", "catch"})
_STATEMENTS = _CHOICES | {"for", "while", "do"}


class CudaSource(NamedTuple):
    """A CUDA file: its name without folders, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class SourceLoop:
    """A loop: the lines of what controls it (``for (...)``, ``while (...)``), and all its lines.

    ``begin`` and ``end`` are the numbers of the tokens of its body.
    """

    control: frozenset[int]
    lines: range
    begin: int
    end: int


class _Token(NamedTuple):
    text: str
    line: int


def loops_around(source: str, line: int) -> tuple[SourceLoop, ...]:
    """The loops whose body holds what stands on a line of ``source``, innermost first.

    Empty if there is none, or if it is not clear: nothing or several ``asm`` on the line. Cost:
    linear in the source.
    """
    text = _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)
    tokens = _tokens(text)
    on_line = [number for number, token in enumerate(tokens) if token.line == line]
    statements = [number for number in on_line if tokens[number].text in ("asm", "__asm__")]
    if len(statements) > 1 or not on_line:
        return ()
    place = (statements or on_line)[0]
    reader = _Reader(tokens)
    try:
        reader.file()
    except RecursionError:
        return ()
    around = [loop for loop in reader.loops if loop.begin <= place < loop.end]
    return tuple(sorted(around, key=lambda loop: -loop.begin))


def _tokens(text: str) -> list[_Token]:
    found = []
    line, position = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        found.append(_Token(match.group(), line))
    return found


class _Reader:
    """Walks over the statements of a file and notes its loops."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self.loops: list[SourceLoop] = []

    def file(self) -> None:
        """Reads everything; a brace too many is passed over."""
        at = 0
        while at < len(self._tokens):
            at = self._statements(at) + 1

    def _text(self, at: int) -> str:
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _statements(self, at: int) -> int:
        """Past the statements up to the brace that closes the block, or the end."""
        while at < len(self._tokens) and self._text(at) != "}":
            at = self._statement(at)
        return at

    def _statement(self, at: int) -> int:
        word = self._text(at)
        if word in ("for", "while"):
            begin = self._group(at + 1)
            end = self._statement(begin)
            self._note(range(at, begin), begin, end)
            return end
        if word == "do":
            end = self._statement(at + 1)
            after = self._group(end + 1) if self._text(end) == "while" else end
            self._note((at, *range(end, after)), at + 1, end)
            return after
        if word in _CHOICES:
            end = self._statement(self._group(at + 1))
            return self._statement(end + 1) if self._text(end) == "else" else end
        if word == "{":
            return self._statements(at + 1) + 1
        return self._plain(at)

    def _plain(self, at: int) -> int:
        """Past a declaration or expression: to its semicolon, or behind the block that it has."""
        start, depth = at, 0
        while at < len(self._tokens):
            word = self._text(at)
            if word == "{":
                at = self._statements(at + 1)
                if depth == 0:
                    return at + 1
            elif word == "}" or (depth == 0 and at > start and word in _STATEMENTS):
                return at
            elif word == ";" and depth == 0:
                return at + 1
            depth += {"(": 1, ")": -1}.get(word, 0)
            at += 1
        return at

    def _group(self, at: int) -> int:
        """Past the parentheses that open at ``at``; ``at`` itself if none do."""
        depth = 0
        for end in range(at, len(self._tokens)):
            depth += {"(": 1, ")": -1}.get(self._text(end), 0)
            if depth == 0:
                return end + 1 if self._text(end) == ")" else at
        return len(self._tokens)

    def _note(self, control: Sequence[int], begin: int, end: int) -> None:
        tokens, last = self._tokens, len(self._tokens) - 1
        lines = frozenset(tokens[min(one, last)].line for one in control)
        most = max(*lines, tokens[min(end - 1, last)].line)
        self.loops.append(SourceLoop(lines, range(min(lines), most + 1), begin, end))


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_GLOBAL = re.compile(r"__global__\b")
_NAME_BEFORE_PARENTHESIS = re.compile(r"([A-Za-z_]\w*)\s*\(")
_ATTRIBUTES = frozenset({"__launch_bounds__", "__maxnreg__", "__cluster_dims__", "__attribute__"})
_ALIGNED = re.compile(r"\b(?:__align__|alignas|__attribute__|decltype)\s*\(+[^()]*\)+")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def parameter_names(source: str, kernel_name: str) -> tuple[str, ...] | None:
    """Names of the parameters of the kernel whose PTX name is ``kernel_name``, or None.

    C++ mangled names (``_Z4sgemPKfi``, nested and template ones too) are matched by their last
    identifier. Cost: linear in the source.
    """
    candidates: set[tuple[str, ...]] = set()
    for _, declared in kernel_declarations(source, kernel_name):
        names = [_parameter_name(one) for one in declared]
        if None not in names:
            candidates.add(tuple(filter(None, names)))
    return candidates.pop() if len(candidates) == 1 else None


def kernel_declarations(source: str, kernel_name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The parameters of each declaration of a kernel as they are written, after the source without
    comments and literals.
    """
    wanted = source_name(kernel_name)
    text = _COMMENT.sub(" ", source)
    for match in _GLOBAL.finditer(text):
        declaration = _declaration_at(text, match.end())
        if declaration is not None and declaration[0] == wanted:
            yield text, declaration[1]


def _declaration_at(text: str, start: int) -> tuple[str, tuple[str, ...]] | None:
    """Function name and parameters of the declaration that follows ``__global__``."""
    position = start
    while match := _NAME_BEFORE_PARENTHESIS.search(text, position):
        if any(c in text[position : match.start()] for c in ";{}"):
            return None
        inside, end = _balanced(text, match.end())
        if match.group(1) in _ATTRIBUTES:
            position = end
            continue
        return match.group(1), tuple(_split_commas(inside))
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
    words = _IDENTIFIER.findall(_ALIGNED.sub(" ", plain))
    # a word alone is a type or a macro, and so is what has something in parentheses
    return words[-1] if len(words) > 1 and "(" not in _ALIGNED.sub(" ", plain) else None
