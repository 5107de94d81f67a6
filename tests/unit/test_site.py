"""The documentation site: what its hooks do, and that its references are complete.

``mkdocs build --strict`` is a step of the gate (.ci/run): it fails on links that lead nowhere, on
pages that the navigation leaves out, and, by the hook tested here, on anything fetched elsewhere.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from places import DOCS, ROOT

import ptxwcet
from ptxwcet.support.explanations import explanations

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = {"simulator.md", "methods/safe.md", "memory.md"}


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("a.md", "See `docs/simulator.md`.", "See [simulator](simulator.md)."),
        ("a.md", "(docs/simulator.md, else)", "([simulator](simulator.md), else)"),
        ("methods/b.md", "`docs/methods/safe.md`", "[safe](safe.md)"),
        ("methods/b.md", "docs/memory.md", "[memory](../memory.md)"),
        ("memory.md", "This is `docs/memory.md`", "This is `docs/memory.md`"),
        ("a.md", "`docs/nothing.md`, docs/nothing.md", "`docs/nothing.md`, docs/nothing.md"),
        ("a.md", "[page](docs/memory.md)", "[page](docs/memory.md)"),
        ("a.md", "`cat docs/memory.md`", "`cat docs/memory.md`"),
        ("a.md", "    docs/memory.md", "    docs/memory.md"),
        ("a.md", "```sh\ndocs/memory.md\n```", "```sh\ndocs/memory.md\n```"),
    ],
)
def test_pages_named_in_text_are_links(
    hooks: ModuleType, page: str, text: str, expected: str
) -> None:
    assert hooks.link_mentions(text, page, PAGES) == expected


def test_the_page_of_diagnostics_explains_every_code(hooks: ModuleType) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="diagnostics.md"))
    text = hooks.on_page_markdown((DOCS / "diagnostics.md").read_text(), page, [])
    assert re.findall(r"^\| (PW\d{3}) \| ", text, re.MULTILINE) == sorted(explanations())


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://host/a.js"></script>',
        '<link rel="stylesheet" href="//host/a.css">',
        '<link rel="preconnect" href="https://host">',
        '<img src="http://host/a.png">',
        '<img srcset="HTTPS://host/a.png 2x">',
        '<iframe src="https://host"></iframe>',
        "<style>@import 'https://host/a.css';</style>",
        "<style>a { background: url(//host/a.png) }</style>",
        '<pre class="mermaid">graph</pre>',
    ],
)
def test_what_would_be_fetched_elsewhere_is_found(
    hooks: ModuleType, text: str, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(f"<html>{text}</html>")
    assert len(hooks.external_resources(tmp_path)) == 1


def test_what_is_the_site_s_own_may_be_fetched(hooks: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<a href="https://host">text</a><script src="../a.js"></script><img src="data:,">'
    )
    (tmp_path / "style.css").write_text("a { background: url(a.svg) } /* https://host */")
    assert hooks.external_resources(tmp_path) == []


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    # two have the names of folders
    shown = set(re.findall(r"^::: ptxwcet\.(?:library\.reports\.)?(\w+)$", page, re.MULTILINE))
    assert shown == set(ptxwcet._HOMES)


METHODS = sorted(path for path in (DOCS / "methods").glob("*.md") if path.stem != "index")


@pytest.mark.parametrize("path", METHODS, ids=[path.stem for path in METHODS])
def test_a_method_says_what_it_rests_on_and_whom_it_is_from(path: Path) -> None:
    title, blank, head, *_ = path.read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ")
    assert blank == ""
    assert re.fullmatch(r"\*\*Rests on\*\* .{20,} \*\*From\*\* .{4,}", head)
    index = (DOCS / "methods" / "index.md").read_text(encoding="utf-8")
    assert f"]({path.name})" in index


def test_the_gate_builds_it() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "mkdocs build --strict\n" in gate  # --quiet would not be strict
