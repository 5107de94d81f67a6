"""The door of the template engine: an HTML page filled in. Everything from outside is escaped."""

from __future__ import annotations

from typing import Any

from ptxwcet.report.page.parts import PAGES, page_file
from ptxwcet.support.printable import printable_picture


def fill(name: str, *, package: str = PAGES, **values: Any) -> str:
    """The template of that name in a package with these values.

    What it names and is not there is an error.
    """
    # here: an extra, which only pages need
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return printable_picture(environment.from_string(page_file(name, package)).render(**values))
