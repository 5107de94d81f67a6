"""Text for terminals and documents: nothing in it can steer what shows it.

Names come from files of other people: file names in ``.file``, labels of measurements, strings of
TOML files. An escape sequence in one of them could move the cursor or rewrite a line above, a
bidirectional control could show a name in another order than it has, and a line feed could begin a
line of the tool's own. All such characters are shown as ``\\u`` and four hexadecimal digits, which
JSON reads as the character itself.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

_LAYOUT = "\n\t"


def printable(text: str) -> str:
    """The text with every character that is not printable shown as ``\\uXXXX``.

    Line feeds and tabs stay: they are layout, not a name's. Not printable is what Unicode calls a
    control, a format character (bidirectional controls, zero-width characters), a separator other
    than the space, a surrogate, or not assigned. Cost: linear.
    """
    return _replaced(text, _LAYOUT, _escaped)


def printable_line(text: str) -> str:
    """As :func:`printable`, and line feeds and tabs are shown as well: a name is on one line."""
    return _replaced(text, "", _escaped)


def printable_picture(text: str) -> str:
    """The text with a replacement character for each one that is not printable.

    For DOT, SVG and HTML, where a backslash has a meaning, or none that a reader would expect.
    """
    return _replaced(text, _LAYOUT, lambda _: "\N{REPLACEMENT CHARACTER}")


def _replaced(text: str, kept: str, replace: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    bad = {one for one in set(text) if not one.isprintable() and one not in kept}
    return text.translate({ord(one): replace(one) for one in bad}) if bad else text


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def plural(count: int, noun: str, many: str = "") -> str:
    """A number of things: ``1 warp``, ``2 warps``."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def aligned(table: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """The rows of a table as lines: two blanks between columns, as wide as their longest cell is.

    ``right`` are the numbers of columns that stand to the right.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
