"""The page about a bound in a browser: nothing fails, nothing is fetched, clicks find their lines.

Skipped where there is no Chromium: what it shows is checked as data in test_report_page.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from places import SAMPLES
from programs import run_program
from sass_listings import listing

from ptxwcet.commands.page.render import render_page
from ptxwcet.commands.page.report import build_page
from ptxwcet.commands.page.study import study_kernels
from ptxwcet.opened.request import Request
from ptxwcet.report.page.parts import Made

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page of a kernel with a loop; what goes wrong in it is in its ``complaints``."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    options = ("--block", "256", "--grid", "8", "--param", "n=100000")
    assert run_program("report", SAMPLES / "histogram.ptx", *options, "-o", path).code == 0
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened(browser, path)
        browser.close()


def opened(browser: Any, path: Path) -> Any:
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    page.complaints = []
    page.on("console", lambda said: page.complaints.append(said.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda one: page.complaints.append(one.url))
    page.goto(path.as_uri())
    assert page.complaints == [path.as_uri()]  # the only request
    page.complaints.clear()
    return page


def lit(page: Any, what: str) -> list[str]:
    """The numbers of the rows that are highlighted, or the blocks of the graph."""
    found: list[str] = page.evaluate(
        "(where) => [...document.querySelectorAll(where)].map((one) => one.dataset.l || "
        "one.dataset.b || one.dataset.inside)",
        f"{what} .on",
    )
    return found


def row(page: Any, pane: str, text: str) -> Any:
    return page.locator(f".{pane} tr", has_text=text).first.locator("td.n")


def test_a_line_highlights_its_instructions_and_its_block(page: Any) -> None:
    row(page, "source", "atomicAdd(&local").click()
    (number,) = lit(page, ".source")
    assert number == "8"
    lines = lit(page, ".ptx")
    texts = page.locator(".ptx tr.on td:last-child").all_text_contents()
    assert len(lines) == len(texts) > 3
    assert any("ld.global.u8" in text for text in texts)
    (block,) = lit(page, ".graph")
    assert page.locator(f".graph [data-b='{block}'] text").first.text_content() == "$L__BB0_2"


def test_a_block_and_an_instruction_highlight_their_lines(page: Any) -> None:
    page.locator(".graph .block", has_text="$L__BB0_3").click()
    assert {"9", "10", "11"} <= set(lit(page, ".source"))
    row(page, "ptx", "ld.global.u8").click()
    assert (len(lit(page, ".ptx")), lit(page, ".source")) == (1, ["8"])
    assert page.complaints == []


def test_loops_are_folded_and_the_graph_is_moved(page: Any) -> None:
    assert page.locator(".graph .block").count() == 5
    row(page, "source", "atomicAdd(&local").click()
    page.locator("button[data-do=fold]").click()
    assert page.locator(".graph .block").count() == 4
    assert lit(page, ".graph") == ["2"]  # the block in the folded loop
    page.locator(".graph .fold").click()
    assert page.locator(".graph .block").count() == 5
    view = "document.querySelector('.graph .world').getAttribute('transform')"
    before = page.evaluate(view)
    page.locator("button[data-do=in]").click()
    assert page.evaluate(view) != before
    assert page.complaints == []


def test_three_forms_of_the_code_are_linked(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "code.html"
    request = Request(
        str(SAMPLES / "sgemm_naive.cu"),
        block="16x16",
        parameters=tuple(f"{number}=64" for number in (3, 4, 5)),
        text=listing("sgemm_naive_86"),
        is_code=True,
    )
    made = Made("ptxwcet report", datetime(2026, 1, 2, tzinfo=UTC), ())
    answer = study_kernels(request, draws_runs=False)
    path.write_text(render_page(build_page(answer, None, made)))
    code = opened(page.context.browser, path)
    pane = "[...document.querySelectorAll('.pane')].map((one) => one.getBoundingClientRect().top)"
    for width, rows in ((1900, 1), (1400, 2), (360, 4)):
        code.set_viewport_size({"width": width, "height": 900})
        assert len(set(code.evaluate(pane))) == rows
        assert code.evaluate("document.body.scrollWidth <= innerWidth")
    row(code, "own", "LDG.E R19, [R34.64]").click()
    own = code.locator("tr.on td:last-child").all_text_contents()
    assert [text.split()[0] for text in own[1:]] == ["ld.global.f32", "01d0"]
    assert lit(code, ".source") == ["15"]
    assert lit(code, ".graph") == ["2"]
    row(code, "source", "sum += tileA").hover()
    near = {one: code.locator(f".{one} tr.near").count() for one in ("source", "ptx", "own")}
    assert near["source"] == 1
    assert near["ptx"] > 30 < near["own"]
    hot = "getComputedStyle(document.querySelector('.graph .folded > rect')).fill"
    code.locator("button[data-do=fold]").click()
    assert code.evaluate("document.querySelector('.graph .folded').style.cssText") == "--w: 1;"
    assert "none" not in code.evaluate(hot)
    assert code.complaints == []


def test_a_narrow_page_does_not_scroll_sideways(page: Any) -> None:
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("document.body.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 1600, "height": 1000})
