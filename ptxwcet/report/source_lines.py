"""The texts of source lines."""

from __future__ import annotations

from pathlib import Path

from ptxwcet.ir.kernel import Kernel

_LARGEST_SOURCE_BYTES = 10_000_000


class SourceLines:
    """The texts of source lines: of ``source``, and of files beside the PTX file ``ptx_path``.

    A file is found by its name alone; one that cannot be read has no lines.
    """

    def __init__(self, ptx_path: str, source: str | None) -> None:
        self._folder = Path(ptx_path).parent
        self._source = None if source is None else Path(source)
        self._files: dict[str, list[str]] = {}

    def text(self, kernel: Kernel, index: int) -> str | None:
        """The source line of an instruction, without indentation; None if it is not at hand."""
        location = kernel.instructions[index].location
        if location is None:
            return ptx_text(kernel, index)
        lines = self.lines(location.file)
        return lines[location.line - 1].strip() if 0 < location.line <= len(lines) else None

    def lines(self, file: str) -> list[str]:
        """All lines of a source file, as ``.file`` names it; none if it is not at hand."""
        name = Path(file).name
        if name not in self._files:
            self._files[name] = self._read(name)
        return self._files[name]

    def _read(self, name: str) -> list[str]:
        given = self._source
        path = given if given is not None and given.name == name else self._folder / name
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST_SOURCE_BYTES:
                return []
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
        except (OSError, ValueError):
            return []


def ptx_text(kernel: Kernel, index: int) -> str:
    """The PTX of an instruction on one line."""
    return " ".join(kernel.instructions[index].span.text.split())
