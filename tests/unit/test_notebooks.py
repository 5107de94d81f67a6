"""What notebooks show of results: tables, pictures and reasons, no pages of a dataclass."""

from __future__ import annotations

import ast
import importlib.util
import os
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pages import code_blocks
from places import DOCS, ROOT, SAMPLES

import ptxwcet

ADD, SAXPY = SAMPLES / "vector_add.ptx", SAMPLES / "saxpy.ptx"
LAUNCH: dict[str, Any] = {"block": 256, "params": {"n": 1000}}


class Tables(HTMLParser):
    """The tables of HTML: captions, and rows of cells. Every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.captions: list[str] = []
        self.rows: list[list[str]] = []
        self.other: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "caption":
            self.captions.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        match self.open[-1:]:
            case ["td" | "th"]:
                self.rows[-1][-1] += data
            case ["caption"]:
                self.captions[-1] += data
            case _:
                self.other.append(data)


def shown(found: Any) -> Tables:
    return Tables(found._repr_html_())


def first_cells() -> list[str]:
    """The first code of the page for Python, cell by cell."""
    block = next(
        one
        for one in code_blocks((DOCS / "python.md").read_text(encoding="utf-8"))
        if one.language == "python"
    )
    return [ast.unparse(one) for one in ast.parse(block.text).body]


def looks_right(cells: list[str], shown_by: list[dict[str, str]]) -> None:
    """Whether the cells of the page show what it says that they show."""
    assert cells[0] == "import ptxwcet"
    refused, bound, lines, graph = (one for one in shown_by if one)
    assert "PW203" in refused["text/html"]
    assert "help: give grid=SIZE and params={" in Tables(refused["text/html"]).other[0]
    facts = dict(Tables(bound["text/html"]).rows)  # type: ignore[arg-type]
    assert facts["bound of a block"].startswith("692 cycles")
    assert facts["guarantee"] == "safe-bound"
    assert facts["bound of the launch"].startswith("2,768 cycles")
    table = Tables(lines["text/html"])
    assert table.rows[0] == ["launch", "cycles", "%", "cause", "line", "code"]
    assert any("y[i] = a * x[i] + y[i]" in row[-1] for row in table.rows)
    assert "image/svg+xml" in graph or "4 blocks, 1 loops" in graph["text/html"]
    for one in shown_by:
        assert all(len(text) < 200 for kind, text in one.items() if kind == "text/plain")


def test_the_first_lines_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    shown_by = []
    for cell in first_cells():
        try:
            found = eval(cell, names)
        except SyntaxError:
            exec(cell, names)
            found = None
        kinds = {
            "text/html": "_repr_html_",
            "image/svg+xml": "_repr_svg_",
            "text/plain": "__repr__",
        }
        of = {} if found is None else {k: getattr(found, v, str)() for k, v in kinds.items()}
        shown_by.append({kind: text for kind, text in of.items() if text})
    looks_right(first_cells(), shown_by)


@pytest.mark.thorough
def test_the_first_lines_in_a_notebook() -> None:
    """The same, run headless as people run it."""
    if not all(map(importlib.util.find_spec, ("nbclient", "nbformat", "ipykernel"))):
        pytest.skip("no notebook is installed here")
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in first_cells()]
    at = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, kernel_name="python3", resources=at).execute()
    outputs = [dict(cell.outputs[0].data) if cell.outputs else {} for cell in notebook.cells]
    looks_right(first_cells(), outputs)


def test_no_page_of_a_dataclass() -> None:
    found = ptxwcet.bound(ADD, **LAUNCH)
    with pytest.raises(ptxwcet.PtxwcetError) as caught:
        ptxwcet.bound(ADD)
    (diagnostic,) = caught.value.diagnostics
    for one in (found, found.machine, found.analysis, found.cfg, found.cfg.kernel, diagnostic):
        assert repr(one).startswith("<")
        assert len(repr(one)) < 200
    assert repr(diagnostic).startswith(f"<Diagnostic PW209 at {ADD}:15:1: the block size of")
    assert ".reg" not in repr(diagnostic.span)


def test_a_refused_kernel_shows_its_reason() -> None:
    tables = shown(ptxwcet.analyse(ADD))
    assert tables.rows == [["kernel", "refused"], ["vector_add", "PW209"]]
    assert (
        "help: give the threads of a block, for example block=256 or block=(32, 8)"
        in (tables.other[0])
    )
    assert "^~~~" in tables.other[0]
    memory = ptxwcet.memory(ADD)
    assert shown(memory).other == [memory.text()[-len(tables.other[0]) - 1 : -1]] == tables.other
    with pytest.raises(ptxwcet.PtxwcetError) as caught:
        ptxwcet.simulate(ADD)
    assert caught.value.__notes__ == tables.other
    assert ptxwcet.explain(caught.value).title.startswith("PW209: ")


def test_what_other_functions_show() -> None:
    memory = shown(ptxwcet.memory(ADD, **LAUNCH))
    assert memory.captions[0] == "vector_add, bound 662 cycles a block"
    assert memory.rows[0][:4] == ["place", "code", "access", "takes of a warp"]
    assert memory.rows[1][3] == "4 sectors"
    lines = shown(ptxwcet.annotate(ADD, **LAUNCH)).rows
    assert sum(int(row[0].replace(",", "") or 0) for row in lines[1:]) == 662
    varied = shown(ptxwcet.what_if(ADD, {"memory.latency": range(100, 301, 100)}, **LAUNCH))
    assert [row[:2] for row in varied.rows[1:]] == [
        ["as it is", "662"],
        *(
            [f"memory.latency={latency}", cycles]
            for latency, cycles in ((100, "462"), (200, "662"), (300, "862"))
        ),
    ]
    versions = SAMPLES / "transpose_naive.ptx", SAMPLES / "transpose_tiled.ptx"
    size = {"block": (32, 8), "params": {"width": 1024, "height": 1024}}
    difference = shown(ptxwcet.compare(*versions, **size))
    assert "what pays the difference" in difference.captions
    assert ["block", "966", "1,769", "83.13"] in difference.rows
    assert "bound = &quot;?&quot;" in ptxwcet.facts(SAXPY, block=256)._repr_html_()
    assert shown(ptxwcet.explain("pw203")).captions == ["PW203"]
    assert len(shown(ptxwcet.explain()).rows) > 100
    checks = shown(ptxwcet.check(SAMPLES / "ptxwcet.toml"))
    assert checks.rows[1][0] == "passed"
    run = ptxwcet.run(SAXPY, SAMPLES / "launches" / "saxpy.toml")
    assert [row[0] for row in shown(run).rows] == ["array", *run.outputs]


def test_names_of_inputs_stay_text() -> None:
    text = SimpleNamespace(__name__="<script>alert(1)</script>", ptx=ADD.read_text())
    for found in (ptxwcet.analyse(text), ptxwcet.memory(text), ptxwcet.facts(text)):
        assert "script" in found._repr_html_()
        assert "<script" not in found._repr_html_()


def test_a_graph_is_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ptxwcet.cfg(SAXPY, block=256, grid=1, params={"n": 10})
    assert "branch: " in graph.dot()
    assert "branch: " not in ptxwcet.cfg(SAXPY).dot()
    layout = tmp_path / "dot"
    layout.write_text('#!/bin/sh\ncat > /dev/null; echo "<svg>$1</svg>" > "$3"\n')
    layout.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert graph._repr_svg_() == "<svg>-Tsvg</svg>\n"
    assert graph._repr_html_() is None
    monkeypatch.setenv("PATH", "")
    assert graph._repr_svg_() is None
    assert ["$L__BB0_2", "block 1"][0] in [row[0] for row in shown(graph).rows]


def test_a_page(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    page = ptxwcet.report(ADD, simulate=False, output=tmp_path / "page.html", **LAUNCH)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html
    assert "ptxwcet.report(" in page.html
    assert "662" in page.html
    assert page._repr_html_().count("<iframe") == 1


def test_what_iterations_take() -> None:
    found = ptxwcet.ports(SAXPY, block=256, grid=4, params={"n": 10_000})
    (loop,) = found.kernels[0].loops
    head, *rows = shown(found).rows
    assert head[:2] == ["line", "issue: 11"]
    assert len(rows) == len(loop.instructions)
    assert [row[-2] == "*" for row in rows] == [one.chain for one in loop.instructions]
    refused = shown(ptxwcet.ports(SAXPY, block=256))
    assert not refused.rows
    assert "PW203" in refused.other[0]
