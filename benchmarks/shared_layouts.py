"""Random shared variables, and how much static shared memory ptxas makes of them.

    python benchmarks/shared_layouts.py --layouts 400 --out tests/data/occupancy/shared-layouts.json

writes, for each, the declarations and what ``ptxas -v`` prints, for the test of residency.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import tempfile
from pathlib import Path

ARCHITECTURES = ("sm_75", "sm_80", "sm_87", "sm_90")
ALIGNMENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def random_text(rng: random.Random, architecture: str) -> str:
    """A kernel that names some of its shared variables, and of those of its module."""
    outer: list[str] = []
    inner: list[str] = []
    names: list[str] = []
    for place, lines in (("m", outer), ("k", inner)):
        for number in range(rng.randint(0, 3)):
            names.append(f"{place}{number}")
            align, size = rng.choice(ALIGNMENTS), rng.randint(1, 700)
            lines.append(f".shared .align {align} .b8 {names[-1]}[{size}];")
    if rng.random() < 0.5:
        names.append("dynamic")
        outer.append(f".extern .shared .align {rng.choice(ALIGNMENTS)} .b8 dynamic[];")
    named = [name for name in names if rng.random() < 0.7]
    body = [f"mov.u32 %r1, {name};\nst.shared.u8 [%r1], %r1;" for name in named]
    return "\n".join(
        [
            f".version 8.0\n.target {architecture}\n.address_size 64",
            *outer,
            ".visible .entry k()\n{\n.reg .b32 %r<2>;",
            *inner,
            *body,
            "ret;\n}\n",
        ]
    )


def assembled(text: str, architecture: str) -> int:
    """Bytes of static shared memory that ptxas reports."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.ptx"
        path.write_text(text)
        command = ["ptxas", "-v", f"-arch={architecture}", str(path), "-o", f"{folder}/k.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"(\d+) bytes smem", done.stderr)
    return int(found.group(1)) if found else 0


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layouts", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    rows = []
    for number in range(options.layouts):
        architecture = ARCHITECTURES[number % len(ARCHITECTURES)]
        text = random_text(rng, architecture)
        rows.append(json.dumps({"ptx": text, "bytes": assembled(text, architecture)}))
    options.out.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
