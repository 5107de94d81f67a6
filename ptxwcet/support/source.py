"""Source files and spans: where in the input a fact comes from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import field

from ptxwcet.support.input_files import working_folder
from ptxwcet.support.records import dataclass

WHOLE_PATH = re.compile(r"/|[A-Za-z]:[\\/]")
"""What begins a path that leads to the same file from everywhere."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceFile:
    """A named input text.

    ``name`` is what diagnostics print. Equality is identity: two reads of one path are two files.
    ``first_line`` is the number of the first line of ``text``: more than 1 for an excerpt of a file
    that is too large to be held. ``before`` are files that it is linked with, each with
    the one before it: the first is that which is asked about.
    """

    name: str
    text: str = field(repr=False)
    first_line: int = 1
    before: SourceFile | None = None
    _line_starts: list[int] = field(default_factory=list, repr=False)

    def behind(self, other: SourceFile) -> SourceFile:
        """The file, linked with another: its offsets are larger, so that they tell both apart."""
        return SourceFile(self.name, f"{' ' * len(other.text)}\n{self.text}", 0, other)

    @property
    def is_linked(self) -> bool:
        """Whether it is linked with the file that is asked about."""
        return self.before is not None

    def line_starts(self) -> list[int]:
        """Offsets of the first character of each line. Cost: linear, once a file."""
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
        """Line and column of a character offset; columns count from 1. Cost: O(log lines)."""
        starts = self.line_starts()
        index = bisect_right(starts, offset) - 1
        return index + self.first_line, offset - starts[index] + 1

    def line_text(self, line: int) -> str:
        """The text of a line without its line terminator."""
        starts = self.line_starts()
        line -= self.first_line - 1
        begin = starts[line - 1]
        end = starts[line] if line < len(starts) else len(self.text)
        return self.text[begin:end].rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open character range ``[start, end)`` of a source file."""

    source: SourceFile
    start: int
    end: int

    @property
    def line(self) -> int:
        """Line of the first character, counted from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """Column of the first character, counted from 1."""
        return self.source.position(self.start)[1]

    @property
    def shown_line(self) -> str:
        """Its line for people, of a file that is linked with the one asked about with its name."""
        return f"{self.line} of {self.source.name}" if self.source.is_linked else str(self.line)

    @property
    def text(self) -> str:
        """The characters of the span."""
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"


def readable_paths(paths: Iterable[str]) -> dict[str, str]:
    """What to call files that a compiler names, wherever it ran.

    A path below the working directory is shown as it is from there, another absolute one by its
    name, with as many folders as tell it from the others. Cost: linear but for equal names.
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
