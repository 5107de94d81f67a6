"""Makes text for terminals and documents: no character in it can control the display.

Names are taken from files of other people: file names in ``.file``, labels of measurements, strings
of TOML files. An escape sequence in one of them could move the cursor or rewrite a line above, a
bidirectional control could show a name in another order than it has, and a line feed could begin a
line of the tool's own. All such characters are shown as ``\\u`` and four hexadecimal digits, which
JSON reads as the character itself.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

_LAYOUT = "\n\t"


def printable(text: str) -> str:
    """Returns the text with every character that is not printable shown as ``\\uXXXX``.

    Line feeds and tabs stay: they are layout, not part of a name. Not printable are Unicode's
    control characters, format characters (bidirectional controls, zero-width characters),
    separators other than the space, surrogates, and unassigned ones. Cost: linear.
    """
    return _replaced(text, _LAYOUT, _escaped)


def printable_line(text: str) -> str:
    """Returns :func:`printable` with line feeds and tabs escaped as well: a name on one line."""
    return _replaced(text, "", _escaped)


def printable_picture(text: str) -> str:
    """Returns the text with a replacement character for each one that is not printable.

    For DOT, SVG and HTML, where a backslash has a meaning, or none that a reader would expect.
    """
    return _replaced(text, _LAYOUT, lambda _: "\N{REPLACEMENT CHARACTER}")


def _replaced(text: str, kept: str, replace: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    bad = {c for c in set(text) if not c.isprintable() and c not in kept}
    return text.translate({ord(c): replace(c) for c in bad}) if bad else text


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def plural(count: int, noun: str, many: str = "") -> str:
    """Returns a number of things: ``1 warp``, ``2 warps``."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def aligned(table: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Returns the rows of a table as lines: columns two blanks apart, as wide as needed.

    ``right`` are the numbers of right-aligned columns.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in table
    ]
