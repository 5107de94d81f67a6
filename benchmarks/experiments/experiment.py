"""What an experiment is asked for, and what it finds: a report's sections, and files beside it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pictures import can_draw, draw_png
from ptxwcet.support.csv_cells import spelled

if TYPE_CHECKING:
    from experiments.pictures import Figure

Progress = Callable[[str, float], None]
"""Called with what is being done, and which part of the whole (0 to 1) is done."""


@dataclass(frozen=True, slots=True)
class Task:
    """What an experiment is asked for.

    ``is_quick``: a reduced protocol. ``work`` is a folder that outlives an interrupted run: what
    takes long may be kept there.
    """

    is_quick: bool
    work: Path
    progress: Progress


@dataclass(slots=True)
class Results:
    """What an experiment found.

    ``sections`` are paragraphs of Markdown; ``files`` are the bytes of tables, data and pictures by
    name; ``inputs`` are the files that were read, whose hashes the report states; ``protocol`` says
    what was done, in a line.
    """

    protocol: str = ""
    sections: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    inputs: set[Path] = field(default_factory=set)
    undrawn: list[str] = field(default_factory=list)

    def say(self, *paragraphs: str) -> None:
        """Adds paragraphs to the report."""
        self.sections += paragraphs

    def add_table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Adds a table to the report, its first column left-aligned."""
        self.say(markdown_table(head, rows))

    def add_csv(self, name: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Adds a file of comma-separated values."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [map(spelled, row) for row in (head, *rows)]
        )
        self.files[name] = text.getvalue().encode()

    def add_json(self, name: str, data: Any) -> None:
        """Adds a file of JSON."""
        self.files[name] = (json.dumps(data, indent=1) + "\n").encode()

    def add_picture(
        self, name: str, caption: str, size: tuple[float, float], draw: Callable[[Figure], None]
    ) -> None:
        """Adds a picture to the files and the report: drawn in inches, where matplotlib is there.

        Where it is not, the report says which picture is missing.
        """
        if can_draw():
            self.place_picture(name, caption, draw_png(size, draw))
        else:
            self.undrawn.append(name)
            self.say(f"*{caption}: not drawn, matplotlib is not installed.*")

    def place_picture(self, name: str, caption: str, png: bytes) -> None:
        """Adds a picture that is drawn already."""
        self.files[name] = png
        self.say(f"![{caption}]({name})")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, its first column left-aligned, the others right."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that can be made again.

    ``module`` has a function ``run(task: Task) -> Results``; ``extras`` are those without which it
    cannot run (support.extras); ``paper`` is the publication, ``tables`` what of it is made again;
    ``page`` says in the project's documentation what our figures mean.
    """

    name: str
    module: str
    extras: tuple[str, ...]
    paper: str
    tables: str
    page: str
