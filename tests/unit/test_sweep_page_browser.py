"""The page about a sweep in a browser: nothing fails, nothing is fetched, it fits narrow screens.

Skipped where there is no Chromium: what it shows is checked as data in test_sweep_report.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from programs import run_program
from sweeps import sgemm_sweep, write_parquet

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH")

PAINTED = """() => {
  const bar = document.querySelector(".beside svg path[style*='--c0']");
  return [getComputedStyle(document.body).backgroundColor, getComputedStyle(bar).fill];
}"""

WIDER = """(which) => [...document.querySelectorAll(which)]
  .filter(one => one.scrollWidth > one.clientWidth)
  .map(one => getComputedStyle(one).backgroundImage === "none" ? "cut" : "shadow")"""
"""What is wider than its room, and whether that is seen at its edge."""


def test_wide_narrow_and_dark(tmp_path: Path) -> None:
    results, path = tmp_path / "results.parquet", tmp_path / "page.html"
    write_parquet(sgemm_sweep((16, 64, 128), (8, 16), (4, 8)), results)
    assert run_program("sweep", "report", results, "--format", "html", "-o", path).code == 0
    painted = {}
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        for scheme, width in (("light", 1500), ("dark", 360)):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            said: list[str] = []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("pageerror", lambda error, said=said: said.append(str(error)))
            page.on("request", lambda one, said=said: said.append(one.url))
            page.goto(path.as_uri())
            assert said == [path.as_uri()]  # the only request
            assert page.evaluate("document.body.scrollWidth <= innerWidth")
            assert page.locator("svg").count() == 11
            wider = page.evaluate(WIDER, ".scroll, .beside figure")
            assert set(wider) == (set() if width > 640 else {"shadow"})
            painted[scheme] = page.evaluate(PAINTED)
        browser.close()
    assert painted["light"][0] != painted["dark"][0]
    assert painted["light"][1] != painted["dark"][1]
