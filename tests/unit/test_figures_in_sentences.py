"""Figures in the sentences of a page that shows output are those of the output beside them."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from places import DOCS, ROOT

pytestmark = pytest.mark.fast

CODE = re.compile(r"^```.*?^```$|^(?: {4}|\t).*$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]*>|RTX \d{4}")
NUMBER = re.compile(r"(?<![\w.,/-])\d[\d,]*(?:\.\d+)?(?![\w/-]|\.\d)")
UNITS = tuple(Decimal(10) ** power for power in (-6, -3, 0, 3, 6))  # ns, us, ms, s; kB, MB
YEARS = range(1990, 2031)


def pages_with_output() -> list[Path]:
    """All but those of experiments, whose figures are those of the files of data beside them."""
    pages = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "experiments"]
    shown = [page for page in pages if "```console" in page.read_text(encoding="utf-8")]
    return [ROOT / "README.md", *shown]


def numbers(text: str) -> set[Decimal]:
    return {Decimal(found.rstrip(",").replace(",", "")) for found in NUMBER.findall(text)}


def unfounded(page: str) -> set[Decimal]:
    """The numbers of four digits and more in sentences that no output, code or table has."""
    shown = numbers("\n".join(CODE.findall(page))) | numbers(" ".join(SPAN.findall(page)))
    prose = SPAN.sub(" ", CODE.sub("", page))
    return {
        number
        for number in numbers(prose)
        if len(number.as_tuple().digits) >= 4
        and number not in YEARS
        and not any(number * unit in shown for unit in UNITS)
    }


# These figures are on another page, which is linked: the cycles of simulated runs.
EXCEPTIONS = {"reading-a-bound.md": {"124,463", "124,805"}}


@pytest.mark.parametrize("page", pages_with_output(), ids=lambda page: page.name)
def test_figures_of_sentences_are_shown(page: Path) -> None:
    found = unfounded(page.read_text(encoding="utf-8"))
    assert {f"{one:,}" for one in found} == EXCEPTIONS.get(page.name, set())


def test_another_figure_is_noticed() -> None:
    page = "No launch takes more than {} microseconds.\n\n```console\n$ x\nKERNEL 9.905 ms\n```\n"
    assert unfounded(page.format("9,905")) == set()
    assert unfounded(page.format("9,876")) == {Decimal(9876)}
    assert unfounded(page.format("9")) == set()
    assert unfounded("In 2025, by `12345` and sm_1234, [x](1234.md):\n\n    12,346\n") == set()
