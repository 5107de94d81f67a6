"""Places of instructions, and the texts of source lines.

The PTX, and so its producer, names the source files. A report may be given to others, so it shows
only files with a source suffix, and no other files in the folder of the PTX: no hidden file, none
that a link takes from another folder, no binary file. PTX from standard input or from a text has no
folder.
"""

from __future__ import annotations

from pathlib import Path

from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.kernel import place as place


def number_ranges(numbers: tuple[int, ...]) -> str:
    """Returns ranges of numbers as text: ``0-2, 5`` for ``(0, 1, 2, 5)``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)


_MOST_TEXT = 48
"""Characters of a line of code in a table, which then fits 120 columns."""


def cut_text(line: str | None) -> str:
    """Returns a line of code, cut to the width of its column."""
    words = " ".join((line or "").split())
    text = "".join(letter if letter.isprintable() else "?" for letter in words)
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 3] + "..."


_LARGEST_SOURCE_BYTES = 10_000_000
SOURCES = {
    *(".c", ".cc", ".cl", ".cpp", ".cu", ".cuf", ".cuh", ".cxx", ".f90", ".h", ".hh", ".hip"),
    *(".hpp", ".hxx", ".inc", ".inl", ".ipp", ".jl", ".mlir", ".ptx", ".py", ".pyx", ".rs"),
    *(".tpp", ".zig"),
}
"""How names of files end whose lines are shown."""


class SourceLines:
    """The texts of source lines: of ``source``, and of files in the folder of ``ptx_path``.

    A file is found by its name only; a file that is not a source, or cannot be read, has no lines,
    nor has another file of its name. ``source`` is the file that the user named, with any suffix.
    """

    def __init__(self, ptx_path: str, source: str | None) -> None:
        self._folder = None if ptx_path.startswith("<") else Path(ptx_path).parent
        self._source = None if source is None else Path(source)
        self._files: dict[str, list[str]] = {}
        self._paths: dict[str, str] = {}

    def text(self, kernel: Kernel, index: int) -> str | None:
        """Returns the stripped source line of an instruction; None if it is not available."""
        location = kernel.instructions[index].location
        if location is None:
            return ptx_text(kernel, index)
        lines = self.lines(location.file)
        return lines[location.line - 1].strip() if 0 < location.line <= len(lines) else None

    def lines(self, file: str) -> list[str]:
        """Returns all lines of a source file, as ``.file`` names it; none if it is not at hand."""
        name = Path(file).name
        if self._paths.setdefault(name, file) != file:
            return []
        if name not in self._files:
            self._files[name] = self._read(name)
        return self._files[name]

    def _read(self, name: str) -> list[str]:
        try:
            path = self._path(name)
            if path is None or not path.is_file() or path.stat().st_size > _LARGEST_SOURCE_BYTES:
                return []
            text = path.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError, RuntimeError):  # RuntimeError: cyclic links
            return []
        return [] if "\0" in text else text.splitlines()

    def _path(self, name: str) -> Path | None:
        """Returns the resolved path of a file; None if its lines are not to be shown."""
        if self._source is not None and self._source.name == name:
            return self._source
        if self._folder is None:
            return None
        folder, path = self._folder.resolve(), (self._folder / name).resolve()
        is_source = all(
            Path(one).suffix.lower() in SOURCES and not one.startswith(".")
            for one in (name, path.name)
        )
        return path if is_source and path.parent == folder else None


def ptx_text(kernel: Kernel, index: int) -> str:
    """Returns the PTX of an instruction on one line."""
    return " ".join(kernel.instructions[index].span.text.split())
