"""Explanations of diagnostic codes, as text for people."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from ptxwcet.support.explanations import Explanation, explanations


def pages_of(code: str | None) -> Mapping[str, Explanation]:
    """Returns the explanation of a code, or of all. Raises ValueError for an unknown code."""
    pages = explanations()
    if code is None:
        return pages
    if code.upper() not in pages:
        raise ValueError(f"there is no code {code!r}")
    return {code.upper(): pages[code.upper()]}


def render_explanations(pages: Mapping[str, Explanation]) -> str:
    """Returns the explanation of a single code, else the titles of all."""
    if len(pages) > 1:
        return "".join(f"{code}  {page.title}\n" for code, page in pages.items())
    ((code, page),) = pages.items()
    remedy = textwrap.fill(f"What to do: {page.remedy}", 88)
    return f"{code}: {page.title}\n\n{textwrap.fill(page.cause, 88)}\n\n{remedy}\n"
