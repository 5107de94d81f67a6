"""Source files and spans: the places of facts in the input."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import field

from ptxwcet.support.input_files import working_folder
from ptxwcet.support.records import dataclass

WHOLE_PATH = re.compile(r"/|[A-Za-z]:[\\/]")
"""The beginning of a path that leads to the same file from everywhere."""
_FUNCTION = re.compile(r"\.(?:entry|func|section)\b")
_NAMED_FILE = r'^\s*\.file\s+{}\s+"((?:[^"\\\n]|\\.)*)"'
_LINE = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:[^\n]*?\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
    r'|//## File "((?!\.nv_)[^"\n]*)", line (\d+)(?: inlined at "([^"\n]*)", line (\d+))?'
)
"""The compiler's information on the lines that follow: in PTX, and in listings of machine code."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A named input text.

    ``name`` is printed by diagnostics. ``first_line`` is the number of the first line of ``text``:
    more than 1 for an excerpt of a file that is too large to be held. ``before`` are files that it
    is linked with, each with the one before it: the first is the file of the request. ``made_of``
    is the author's source from which a compiler made the text; ``how`` is the compilation, if it
    was done here for an object.
    """

    name: str
    text: str = field(repr=False)
    first_line: int = 1
    before: SourceFile | None = None
    made_of: SourceFile | None = None
    how: str = ""
    _line_starts: list[int] = field(default_factory=list, repr=False, compare=False)

    def __hash__(self) -> int:
        return hash(self.name)

    def behind(self, other: SourceFile) -> SourceFile:
        """Returns the file linked with another: its larger offsets distinguish both."""
        text = f"{' ' * len(other.text)}\n{self.text}"
        return SourceFile(self.name, text, 0, other, self.made_of, self.how)

    @property
    def is_linked(self) -> bool:
        """Whether it is linked with the file of the request."""
        return self.before is not None

    def line_starts(self) -> list[int]:
        """Returns the offset of the first character of each line. Cost: linear, once a file."""
        starts = self._line_starts
        if not starts:
            text = self.text
            starts.append(0)
            position = text.find("\n")
            while position >= 0:
                starts.append(position + 1)
                position = text.find("\n", position + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Returns line and column of a character offset, from 1. Cost: O(log lines)."""
        starts = self.line_starts()
        index = bisect_right(starts, offset) - 1
        return index + self.first_line, offset - starts[index] + 1

    def line_text(self, line: int) -> str:
        """Returns the text of a line without its line terminator."""
        starts = self.line_starts()
        line -= self.first_line - 1
        begin = starts[line - 1]
        end = starts[line] if line < len(starts) else len(self.text)
        return self.text[begin:end].rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open character range ``[start, end)`` of a source file."""

    source: SourceFile
    start: int
    end: int

    @property
    def line(self) -> int:
        """The line of the first character, counted from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """The column of the first character, counted from 1."""
        return self.source.position(self.start)[1]

    @property
    def shown_line(self) -> str:
        """Its line for people; with the name of its file if that is linked with the request's."""
        return f"{self.line} of {self.source.name}" if self.source.is_linked else str(self.line)

    @property
    def text(self) -> str:
        """The characters of the span."""
        return self.source.text[self.start : self.end]

    @property
    def shown_place(self) -> str:
        """Its line for people, in words: in the author's source, if its text was made from it."""
        written = self.written
        return f"line {self.shown_line}" if written is None else written.place

    @property
    def place(self) -> str:
        """Its file and line."""
        return f"{self.source.name}:{self.line}"

    @property
    def written(self) -> Span | None:
        """The place in the author's source from which a compiler made it; None if unknown.

        It has no text in files other than the compiler's input. A file in another folder is not the
        author's: there the place is that of the call. Cost: linear in the text.
        """
        main = self.source.made_of
        if main is None:
            return None
        home = os.path.dirname(os.path.abspath(main.name))
        for path, line, column in self._named_lines():
            if os.path.basename(path) == os.path.basename(main.name):
                if 0 < line <= len(main.line_starts()):
                    before = min(max(column - 1, 0), len(main.line_text(line)))
                    start = main.line_starts()[line - 1] + before
                    return Span(main, start, start + 1)
            elif os.path.isabs(path) and path.startswith((home + os.sep, working_folder() + "/")):
                own = SourceFile(readable_paths([path])[path], "", line)
                return Span(own, 0, 0)
        return None

    def _named_lines(self) -> Iterator[tuple[str, int, int]]:
        """Yields the places that the text names for this one, an inlined one before its call."""
        text = self.source.text
        line_end = text.find("\n", self.start) % (len(text) + 1)
        begin = max((m.start() for m in _FUNCTION.finditer(text, 0, line_end)), default=-1)
        end = text.find("\n}", max(begin, 0)) % (len(text) + 1)
        if begin < 0 or end < self.start:
            return
        lines = list(_LINE.finditer(text, begin, end))
        before = [p for p in lines if p.start() < self.start]
        for place in before[-1:] or lines[:1]:
            file, line, column, outer, outer_line, outer_column, *listed = place.groups()
            for number, at, within in ((file, line, column), (outer, outer_line, outer_column)):
                named = re.search(_NAMED_FILE.format(number), text, re.MULTILINE)
                if named is not None:
                    yield named[1], int(at), int(within)
            for path, at in (listed[:2], listed[2:]):
                if path is not None:
                    yield path, int(at), 1

    def __str__(self) -> str:
        shown = self.written or self
        return f"{shown.place}:{shown.column}"


def readable_paths(paths: Iterable[str]) -> dict[str, str]:
    """Returns readable names of files that a compiler names, wherever it ran.

    A path below the working directory is shown relative to it, another absolute one by its name,
    with as many folders as distinguish it from the others. Cost: linear but for equal names.
    """
    here = working_folder().rstrip("/") + "/"
    names: dict[str, str] = {}
    foreign: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        if here != "/" and path.startswith(here):
            names[path] = path.removeprefix(here)
        elif WHOLE_PATH.match(path):
            foreign[path] = [part for part in re.split(r"[\\/]", path) if part]
        else:
            names[path] = path
    depth = 1
    while foreign:
        shown = {path: "/".join(parts[-depth:]) for path, parts in foreign.items()}
        times = Counter((*names.values(), *shown.values()))
        settled = [
            path for path, parts in foreign.items() if times[shown[path]] == 1 or depth > len(parts)
        ]
        names |= {path: shown[path] if depth <= len(foreign[path]) else path for path in settled}
        foreign = {path: parts for path, parts in foreign.items() if path not in names}
        depth += 1
    return names
