"""Compiles the variants of sgemm.cu that sweep.toml names: ``python build.py FOLDER``.

FOLDER gets a PTX file of each variant, what ``ptxas -v`` says of it for two architectures, and
copies of the source and of the plan, whose paths are relative to it. Needs nvcc and ptxas on PATH.
The same tools write the same bytes. It takes about a second a variant and core.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "sgemm.cu"
PLAN = HERE / "sweep.toml"
VIRTUAL, ARCHITECTURES = "compute_75", ("sm_75", "sm_87")
MACROS = {"tm": "TM", "tn": "TN", "tk": "TK", "rm": "RM", "rn": "RN", "stages": "STAGES"}
"""Axes of the plan that are compiled into a variant, with their macros."""

Variant = dict[str, int]


def variants() -> Iterator[Variant]:
    """The variants of the plan's first table, in its order, each once."""
    table = tomllib.loads(PLAN.read_text())["sweep"][0]
    conditions = [compile(condition, str(PLAN), "eval") for condition in table["where"]]
    for values in product(*(table["axes"][axis] for axis in MACROS)):
        variant = dict(zip(MACROS, values, strict=True))
        # conditions of a plan are read by Python as by the plan's reader, and these are our own
        if all(eval(condition, {"__builtins__": {}}, variant) for condition in conditions):
            yield variant


def stem(variant: Variant) -> str:
    """The name of a variant's files, as the plan writes it."""
    return "sgemm_{tm}x{tn}x{tk}_{rm}x{rn}_{stages}".format(**variant)


def build(variant: Variant, folder: Path) -> None:
    """Compile a variant, and ask ptxas for its registers."""
    ptx = folder / f"{stem(variant)}.ptx"
    macros = [f"-D{macro}={variant[axis]}" for axis, macro in MACROS.items()]
    options = ["-ptx", "-O3", f"-arch={VIRTUAL}", *macros]
    subprocess.run(["nvcc", *options, str(SOURCE), "-o", str(ptx)], check=True)
    # what nvcc of now writes for its oldest GPU, an older one takes too: it is bounded on a Titan V
    ptx.write_text(ptx.read_text().replace(".target sm_75", ".target sm_70"))
    for architecture in ARCHITECTURES:
        said = registers(ptx, architecture)
        (folder / f"{stem(variant)}.{architecture}.txt").write_text(said)


def registers(ptx: Path, architecture: str) -> str:
    """What ``ptxas -v`` says of a kernel, but for how long it took: each run would differ."""
    command = ["ptxas", "-v", f"-arch={architecture}", str(ptx), "-o", os.devnull]
    said = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True).stderr
    return "".join(line for line in said.splitlines(True) if "Compile time" not in line)


def main() -> int:
    """Compile all variants into the folder that the command line names."""
    parser = argparse.ArgumentParser(description="Compile the variants that sweep.toml names.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at a time")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    chosen = list(variants())
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for _ in pool.map(lambda variant: build(variant, folder), chosen):
            pass
    for file in (SOURCE, PLAN):
        shutil.copy(file, folder)
    print(f"{len(chosen)} variants in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
