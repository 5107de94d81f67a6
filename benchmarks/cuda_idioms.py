"""Idioms of CUDA with random constants and types, compiled by ``nvcc -O3`` in batches."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from random_programs import RandomKernel

from ptxwcet.flow.launch import Launch

IDIOMS = ("cuda",)
BATCH = 60
"""Kernels compiled by one call of the compiler."""

_TYPES = ("int", "int", "unsigned", "unsigned", "long long", "unsigned long long", "short")
_TYPES_SMALL = (*_TYPES, "unsigned char", "unsigned short", "signed char")

_TEMPLATES = tuple(
    line
    for line in (Path(__file__).parent / "kernels" / "idioms.txt").read_text().splitlines()
    if not line.startswith("#")
)


def source(name: str, random: Random) -> str:
    """A kernel of a random template: its own types, constants and relations."""
    body = random.choice(_TEMPLATES)
    kind = random.choice(_TYPES_SMALL)
    wide = random.choice(("unsigned", "unsigned long long"))
    edge = (1 << random.randrange(2, 31)) + random.choice((-1, 0, 1))
    words = {
        "T": kind,
        "U": wide,
        "C": str(random.choice((1, 2, 3, 5, 8, 10, 20))),
        "D": str(random.choice((1, 1, 2, 3, 7))),
        "E": str(edge),
        "R": random.choice(("<", "<=", "!=", ">")),
    }
    text = re.sub(r"\b[TUCDER]\b", lambda found: words[found.group()], body)
    of = random.choice(("int", "unsigned", "long long"))
    return (
        f'extern "C" __global__ void {name}(const int* a, int* b, {of} n, int m) {{\n'
        f"  int t = threadIdx.x;\n  {text}\n}}\n"
    )


def compiled_kernels(kind: str, count: int, seed: int) -> Iterator[RandomKernel]:
    """So many kernels with the seeds from ``seed`` on. Raises CalledProcessError."""
    for first in range(seed, seed + count, BATCH):
        yield from _batch(kind, range(first, min(first + BATCH, seed + count)))


def _batch(kind: str, seeds: range) -> Iterator[RandomKernel]:
    chosen = {seed: Random(f"{kind} {seed}") for seed in seeds}
    text = "".join(source(f"k{seed}", random) for seed, random in chosen.items())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batch.cu"
        path.write_text(text)
        command = ["nvcc", "-w", "-O3", "-arch=sm_80", "-ptx", "-o", f"{folder}/batch.ptx"]
        subprocess.run([*command, str(path)], check=True)
        ptx = (Path(folder) / "batch.ptx").read_text()
    head, *kernels = re.split(r"(?=^\.visible \.entry )", ptx, flags=re.MULTILINE)
    named = {re.search(r"k(\d+)\(", one).group(1): one for one in kernels}  # type: ignore[union-attr]
    for seed, random in chosen.items():
        threads = random.choice((1, 4, 32, 33, 64))
        values: dict[str, int | float] = {}
        for number in (2, 3):
            if random.random() < 0.3:
                values[f"k{seed}_param_{number}"] = random.choice((1, 4, 10, 31, 64))
        launch = Launch((threads, 1, 1), random.choice((None, (1, 1, 1), (3, 1, 1))), values)
        yield RandomKernel(
            seed, kind, head + named[str(seed)], launch, 300 if threads < 32 else 120
        )
