"""The examples in docstrings run and print what they say; skipped ones use only known names."""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
from types import ModuleType
from typing import Any

import pytest
from places import ROOT

NAMES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "ptxwcet").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def test_there_are_examples() -> None:
    assert "ptxwcet.commands.bound.study" in NAMES
    assert len(NAMES) >= 10


def test_examples_of_the_page_for_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs" / "python.md"
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert found.attempted >= 8
    assert found.failed == 0


@pytest.mark.parametrize("name", NAMES)
def test_examples_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # they name files of samples/
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples"
    assert result.attempted > 0
    assert unknown_names(module) == []


def unknown_names(module: ModuleType) -> list[str]:
    """Names that an example uses before any example, or the module, defines them."""
    found: list[str] = []
    for test in doctest.DocTestFinder().find(module):
        # doctest runs an example in the module's own names; a reader has only those imported
        known: set[str] = set(vars(builtins))
        if "import" not in "".join(one.source for one in test.examples):
            known |= set(vars(module))
        for example in test.examples:
            tree = ast.parse(example.source)
            known |= _names(tree, ast.Store)
            found += sorted(_names(tree, ast.Load) - known)
    return found


def _names(tree: ast.AST, context: type[ast.expr_context]) -> set[str]:
    found = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, context)
    }
    if context is ast.Store:
        aliases: list[Any] = [
            n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)
        ]
        found |= {(a.asname or a.name) for node in aliases for a in node.names}
    return found
