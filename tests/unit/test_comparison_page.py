"""``docs/comparison.md``: what it says of ptxwcet is shown on a page that it names."""

from __future__ import annotations

import re

import pytest
from places import DOCS

pytestmark = pytest.mark.fast

TEXT = (DOCS / "comparison.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\(([\w/.-]+\.md)(?:#([\w-]+))?\)")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ")][1:]
CLAIMS = [part for part in re.split(r"\n\n|\n(?=\* )", TEXT) if part.startswith(("*ptxwcet", "* "))]


def test_there_is_something_to_look_at() -> None:
    assert len(ROWS) == 8
    assert len(CLAIMS) == 7 + 5


@pytest.mark.parametrize("text", [*ROWS, *CLAIMS], ids=lambda text: text[:30])
def test_each_claim_names_a_page_that_is_there(text: str) -> None:
    links = LINK.findall(text)
    assert links
    for page, place in links:
        headings = re.findall(r"^#+ (.*)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert not place or place in [re.sub(r"[^\w]+", "-", one.lower()) for one in headings]


def test_nothing_is_denied_that_is_there() -> None:
    """Machine code, caches by claims and textures by a row of one's own are bounded."""
    assert not re.search(r"No machine code:|No caches:|No textures,|knows no caches", TEXT)
    assert "| **ptxwcet** | PTX and machine code" in TEXT
