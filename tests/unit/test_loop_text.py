"""How a bound on a loop is said stands in one module."""

from __future__ import annotations

import re

from places import PACKAGE

from ptxwcet.commands.bound.loop_text import PER_ENTRY


def test_one_module_says_what_a_bound_on_a_loop_counts() -> None:
    texts = (path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".html", ".js"})
    head = re.compile(f"(?:, |>){PER_ENTRY}")
    assert [path.name for path in texts if head.search(path.read_text(encoding="utf-8"))] == []
