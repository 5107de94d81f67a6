"""The sentences of docs and package: ten habits become fewer, and never more.

Each expression finds a habit that hides the subject, the verb or the noun of a sentence. A match is
not always a fault, so each habit has a limit. Lower a limit when you rewrite sentences; never raise
one.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache

import pytest
from places import ROOT

PATTERNS = {
    "a clause with what in place of a noun": r"\bwhat (?:is|are|was|were|has|have|it|they|an?|the"
    r"|those|each|all|lanes|warps|loops|[a-z]+s)\b",
    "programs that say, tell, ask, want": r"\b(?:says?|said|tells?|told|asks?|asked|wants?"
    r"|wanted)\b",
    "verbs of place and motion": r"\b(?:stands?|stood|lies?|lay|comes?|came|goes|went)\b",
    "is no, is none, is one": r"\b(?:is|are|was|be|were) (?:none|one|no (?!longer|more|less|fewer"
    r"|[0-9])[a-z]+)\b(?! of)",
    "that of, those of": r"\bth(?:at|ose) (?:of|that|which)\b",
    "a sentence that begins with of": r"(?:^|[.;:] |\n\s*)Of (?:an?|the|what|it|those|them|all"
    r"|several|each|[a-z`]+)\b",
    "of which, of what, of whom": r"\bof (?:which|whom|what)\b",
    "behind and beside": r"\b(?:behind|beside)\b",
    "alone after its noun": r"[a-z`)]+ alone\b",
    "ways and somebody": r"\bways?\b|\b(?:who(?:ever|m)?|nobody|somebody|anybody)\b",
}
# At most so many in pages (code left out), and in the package's docstrings, comments and texts.
LIMITS = {
    "a clause with what in place of a noun": (19, 713),
    "programs that say, tell, ask, want": (3, 477),
    "verbs of place and motion": (5, 380),
    "is no, is none, is one": (28, 290),
    "that of, those of": (40, 302),
    "a sentence that begins with of": (15, 269),
    "of which, of what, of whom": (5, 136),
    "behind and beside": (6, 120),
    "alone after its noun": (15, 87),
    "ways and somebody": (7, 270),
}
SLACK = 20
"""A limit that is further above the count is lowered."""


@cache
def page_text() -> str:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(pages))
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


@cache
def package_text() -> str:
    files = sorted((ROOT / "ptxwcet").rglob("*.py"))
    return "\n".join(text for path in files for text in texts_of(path.read_text(encoding="utf-8")))


def texts_of(source: str) -> Iterator[str]:
    """Yields the comments and strings of a module, without the code in backticks."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield re.sub(r"``?[^`\n]*``?", "", node.value)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_habits_become_fewer(pattern: str) -> None:
    expression = re.compile(PATTERNS[pattern], re.IGNORECASE | re.M)
    counts = tuple(
        sum(1 for _ in expression.finditer(text)) for text in (page_text(), package_text())
    )
    for count, limit in zip(counts, LIMITS[pattern], strict=True):
        assert limit - SLACK <= count <= limit, f"found {counts}, limits {LIMITS[pattern]}"
