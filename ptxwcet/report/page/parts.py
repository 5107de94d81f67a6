"""Common parts of the tool's HTML pages: style, colours of pictures, origin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from importlib import resources
from typing import Any

from ptxwcet.opened.opening import ReadFile
from ptxwcet.support.printable import printable_picture
from ptxwcet.support.records import dataclass

# matplotlib's colours, which are replaced by those of the page
_THEME = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#cccccc": "var(--rule)",
    "#b0b0b0": "var(--rule)",
    **{f"#12345{k}": f"var(--c{k})" for k in range(6)},
}


def themed(svg: str, prefix: str) -> str:
    """Returns a picture of matplotlib in the colours of the page, its ids begun with ``prefix``.

    Ids of several pictures on one page must differ.
    """
    drawn = svg[svg.index("<svg") :]
    for mark in ('id="', 'href="#', "url(#"):
        drawn = drawn.replace(mark, mark + prefix)
    for colour, own in _THEME.items():
        drawn = drawn.replace(colour, own)
    return drawn


@dataclass(frozen=True, slots=True)
class Made:
    """How a page was made: the command, when, and the files that it rests on."""

    command: str
    at: datetime
    files: Sequence[ReadFile]

    @property
    def time(self) -> str:
        """When the page was made, in words."""
        return self.at.strftime("%Y-%m-%d %H:%M UTC")


PAGES = "ptxwcet.report.page"


def page_file(name: str, package: str = PAGES) -> str:
    """Returns the text of a file of a package's pages: a template, a style, a script."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def fill(name: str, *, package: str = PAGES, **values: Any) -> str:
    """Returns the named template of a package with these values.

    A missing value is an error.
    """
    # imported here: only pages need this extra
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return printable_picture(environment.from_string(page_file(name, package)).render(**values))
