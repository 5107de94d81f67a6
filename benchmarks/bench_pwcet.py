"""Speed and memory of ``ptxwcet pwcet`` on a million times: ``python benchmarks/bench_pwcet.py``.

Writes a file of whole cycles, analyses it in a fresh process, and prints processor and wall seconds
and the most memory that the process held.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--page", action="store_true", help="with the page of pictures")
    given, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "times.csv"
        times = np.random.default_rng(1).gamma(9.0, 1000.0, given.runs)
        np.savetxt(path, times, "%d", header="cycles", comments="")
        command = [sys.executable, "-m", "ptxwcet", "pwcet", str(path), *more]
        if given.page:
            command += ["--format", "html", "-o", str(Path(folder) / "page.html")]
        begin = time.monotonic()
        made = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if made.returncode not in (0, 1):  # 1: the hypotheses are rejected, after all the work
            raise SystemExit(made.returncode)
        wall = time.monotonic() - begin
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = used.ru_utime + used.ru_stime
        print(
            f"{given.runs:,} times: {seconds:.1f} s of processor, {wall:.1f} s on the wall, "
            f"{used.ru_maxrss / 1024:.0f} MiB"
        )


if __name__ == "__main__":
    main()
