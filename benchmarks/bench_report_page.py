"""How large the page of a large kernel is, and how long a click takes in it.

    python benchmarks/bench_report_page.py [INSTRUCTIONS]

Needs the extra ``dev`` and a Chromium on the PATH.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from big_kernels import big_kernel
from programs import run_program

# The time of the handlers of a click, then that until the browser has laid the page out again.
CLICKS = """() => {
  const rows = [...document.querySelectorAll(".ptx tr[data-b], .source tr[data-s]")];
  const found = [];
  for (let k = 0; k < 40; k++) {
    const row = rows[Math.floor(k * (rows.length - 1) / 39)];
    const start = performance.now();
    row.firstElementChild.click();
    const handled = performance.now();
    document.body.offsetHeight;
    found.push([handled - start, performance.now() - start]);
  }
  return found;
}"""


def measure(page: Any, path: Path) -> None:
    start = time.perf_counter()
    page.goto(path.as_uri())
    print(f"opened in {time.perf_counter() - start:.2f} s")
    clicks = page.evaluate(CLICKS)
    for what, column in (("handler", 0), ("with layout", 1)):
        times = sorted(one[column] for one in clicks)
        print(f"click, {what}: median {times[len(times) // 2]:.1f} ms, worst {times[-1]:.1f} ms")
    for action in ("fold", "fold", "fit"):
        start = time.perf_counter()
        page.locator(f"button[data-do={action}]").first.click()
        print(
            f"{action}: {1000 * (time.perf_counter() - start):.0f} ms, the driver's part included"
        )


def run(instructions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ptx, page = Path(folder) / "big.ptx", Path(folder) / "big.html"
        ptx.write_text(big_kernel(instructions))
        (Path(folder) / "big.cu").write_text("".join(f"line {k};\n" for k in range(1, 900)))
        start = time.perf_counter()
        run_program("report", ptx, "--block", "256", "-q", "-o", page)
        print(f"{instructions} instructions: made in {time.perf_counter() - start:.1f} s, ", end="")
        print(f"{page.stat().st_size:,} bytes")
        with sync_playwright() as driver:
            chromium = shutil.which("chromium")
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            measure(browser.new_page(viewport={"width": 1600, "height": 1000}), page)
            browser.close()


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
