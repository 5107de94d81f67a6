"""Parse + CFG against ``ptxas -O0 -c`` on the same file, in one run.

Usage: python benchmarks/bench_parse.py [MEGABYTES] [PTX ...]

The input is the reference kernels of ``tests/data/reference-sim`` with renamed entries, repeated up
to the size (default 2 MB), and the files given. Each is timed cold, in a fresh process that has
imported the package but parsed nothing, with the garbage collector on, as Python has it, and off;
the best of three processes counts.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "tests" / "data" / "reference-sim" / "ptx" / "kernels.ptx"
ROUNDS = 3

WORKER = """
import gc, json, sys, time
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
source = read_source(sys.argv[1])
if sys.argv[2] == "off":
    gc.disable()
begin = time.perf_counter()
module = parse_module(source)
parsed = time.perf_counter()
graphs = [build_cfg(kernel) for kernel in module.kernels + module.functions]
end = time.perf_counter()
count = sum(len(kernel.instructions) for kernel in module.kernels + module.functions)
print(json.dumps([count, parsed - begin, end - begin]))
"""


def repeated(text: str, size: int) -> str:
    """The text with its entries repeated under new names until it has ``size`` characters."""
    head, _, body = text.partition(".address_size 64")
    names = sorted(re.findall(r"\.entry (\w+)", body), key=len, reverse=True)
    pattern = re.compile(rf"\b({'|'.join(names)})(?=\b|_param)")
    parts = [head, ".address_size 64\n"]
    total, number = 0, 0
    while total < size:
        number += 1
        part = pattern.sub(rf"\1_copy{number}", body)
        part = re.sub(r"(_copy\d+)(_param_)", r"\1\2", part)
        parts.append(part)
        total += len(part)
    return "".join(parts)


def best(path: Path, collector: str) -> tuple[int, float, float]:
    """Instructions, seconds to parse, seconds to parse and build the CFGs."""
    runs = []
    for _ in range(ROUNDS):
        command = [sys.executable, "-c", WORKER, str(path), collector]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        runs.append(json.loads(done.stdout))
    count = runs[0][0]
    return count, min(run[1] for run in runs), min(run[2] for run in runs)


def assemble_seconds(path: Path, folder: Path) -> float | None:
    """Seconds of ``ptxas -O0 -c``, best of three; None without ptxas or if it refuses."""
    ptxas = shutil.which("ptxas")
    found = re.search(r"\.target\s+sm_(\w+)", path.read_text())
    if ptxas is None or found is None:
        return None
    target = found.group(1)
    command = [ptxas, "-O0", "-c", f"-arch=sm_{target}", str(path), "-o", str(folder / "o")]
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def report(path: Path, folder: Path) -> None:
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
    assembled = assemble_seconds(path, folder)
    for collector in ("on", "off"):
        count, parse, both = best(path, collector)
        print(
            f"  gc {collector:3}  {count} instructions  parse {parse:.3f} s {count / parse:9,.0f}/s"
            f"  parse + CFG {both:.3f} s {count / both:9,.0f}/s"
            + (f"  ptxas -O0 takes {assembled / both:.1f} times as long" if assembled else "")
        )
    if assembled is not None:
        print(f"  ptxas -O0 -c {assembled:.3f} s {count / assembled:9,.0f}/s")


def main() -> None:
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generated = folder / "reference_repeated.ptx"
        generated.write_text(repeated(REFERENCE.read_text(), int(megabytes * 1e6)))
        report(generated, folder)
        for path in sys.argv[2:]:
            report(Path(path).resolve(), folder)


if __name__ == "__main__":
    main()
