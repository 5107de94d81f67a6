"""The kernels of the hybrid experiment: where they lie, what was published, their input vectors.

The applications are those of Betts and Donaldson, ECRTS 2013, Table I, in the variants that Table
II names; the ``README.md`` beside them says what each variant is here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kernel_files import kernel_folder
from experiments.sample_launches import MACHINE
from ptxwcet.commands.run.study import RunRequest, read_launch, run_file
from ptxwcet.ir.kernel import Module
from ptxwcet.opened.request import Request
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source

HYBRID = kernel_folder("hybrid")
CLASSES = ("random",) * 6 + ("sorted", "reversed", "constant", "few values")
"""The kinds of input vectors, which take turns."""
FEW = 4
"""How many different values an array of kind ``few values`` has."""
SEEDED = re.compile(r"^(\w+) = (\{.*\bseed = )(\d+)( \})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Published:
    """A row of Table II: cycles, and percentages over the high-water mark as printed."""

    kernel: str
    high_water_mark: int
    warp: int
    dynamic: int
    dynamic_percent: int
    hybrid: int
    hybrid_percent: int


@dataclass(frozen=True, slots=True)
class HybridKernel:
    """A kernel, with its row of the published table; ``kernel`` is its name in the PTX."""

    published: Published
    kernel: str

    @property
    def name(self) -> str:
        """The name in the published table."""
        return self.published.kernel

    @property
    def path(self) -> Path:
        """The PTX file."""
        return HYBRID / (re.sub(r"_\d$", "", self.kernel) + ".ptx")

    @property
    def launch(self) -> Path:
        """The launch of the experiment."""
        return HYBRID / "launches" / f"{self.kernel}.toml"

    @property
    def small(self) -> Path:
        """A launch of a few blocks, for tests."""
        return HYBRID / "small" / f"{self.kernel}.toml"

    @property
    def facts(self) -> Path | None:
        """The facts that its static bound needs; None for most."""
        path = HYBRID / "facts" / f"{self.kernel}.toml"
        return path if path.exists() else None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that a run of the experiment reads."""
        facts = () if self.facts is None else (self.facts,)
        return (self.path, self.launch, *facts)

    def request(self, launch: Path) -> Request:
        """The request for the static bound of a launch."""
        facts = None if self.facts is None else str(self.facts)
        return Request(str(self.path), launch_file=str(launch), facts_file=facts, machine=MACHINE)


@cache
def module_of(path: Path) -> Module:
    """The module that a PTX file holds."""
    return parse_module(read_source(str(path)))


def hybrid_kernels() -> tuple[HybridKernel, ...]:
    """The kernels in the order of the published table."""
    with (HYBRID / "published.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            Published(row.pop("kernel"), *map(int, row.values())) for row in csv.DictReader(file)
        ]
    return tuple(HybridKernel(row, ptx_name(row.kernel)) for row in rows)


def ptx_name(published: str) -> str:
    """The PTX name of a published kernel: that of BitonicSort-1 is ``bitonic_sort_1``."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", published.replace("EigenV", "Eigenv"))
    return words.replace("-", "_").lower()


def write_input(kernel: HybridKernel, number: int, folder: Path) -> Path:
    """Writes the launch file of an input vector, with its arrays; returns its path.

    Number 0 is the launch file's own. Each other has seeds of its own in the random arrays, and
    every tenth, from 6 to 9, has them sorted, reversed, constant, with few values. The last kernel
    of the eigenvalues gets the intervals that the one before finds for its matrix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kernel.kernel}.toml"
    text = kernel.launch.read_text(encoding="utf-8")
    text = SEEDED.sub(lambda row: f"{row[1]} = {row[2]}{int(row[3]) + 100 * number}{row[4]}", text)
    kind = CLASSES[number % len(CLASSES)]
    path.write_text(text, encoding="utf-8")
    arrays: dict[str, Any] = {}
    if kind != "random":
        given = values_of(kernel, path)
        arrays = {row[1]: reshaped(given[row[1]], kind) for row in SEEDED.finditer(text)}
    if kernel.kernel == "eigenvalues_3":
        given = values_of(kernel, path)
        matrix = {name: arrays.get(name, given[name]) for name in ("diagonal", "off")}
        arrays = {**matrix, **separated(matrix, folder)}
    path.write_text(with_arrays(text, arrays, folder), encoding="utf-8")
    return path


def values_of(kernel: HybridKernel, launch: Path) -> Mapping[str, Any]:
    """The arguments of a launch file, by name."""
    read = read_launch(str(launch), module_of(kernel.path), Request(str(kernel.path)))
    return {row.name: value for row, value in zip(read.arguments, read.values(), strict=True)}


def reshaped(values: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """An array of these values in another order, or of a few of them."""
    flat = values.ravel()
    if kind == "constant":
        result = np.full_like(flat, flat[0])
    elif kind == "few values":
        result = flat[:FEW][np.arange(flat.size) * 7 // 3 % min(FEW, flat.size)]
    else:
        result = np.sort(flat)[:: -1 if kind == "reversed" else 1]
    return np.ascontiguousarray(result.reshape(values.shape))


def separated(matrix: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The interval of each eigenvalue, from a run of the kernel that separates them."""
    (kernel,) = (one for one in hybrid_kernels() if one.kernel == "eigenvalues_2")
    text = with_arrays(kernel.launch.read_text(encoding="utf-8"), matrix, folder)
    path = folder / f"{kernel.kernel}.toml"
    path.write_text(text, encoding="utf-8")
    found = run_file(RunRequest(str(kernel.path), str(path))).outputs
    intervals = int(found["found"][0])
    held = (found["after"] - found["before"])[:intervals]
    return {name: np.repeat(found[name][:intervals], held) for name in ("lefts", "rights")}


def with_arrays(text: str, arrays: Mapping[str, Any], folder: Path) -> str:
    """The launch with some arrays taken from files, which are written beside it."""
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
        replacement = f'{name} = {{ file = "{name}.npy" }}'
        text, count = re.subn(rf"^{name} = \{{.*\}}$", replacement, text, flags=re.MULTILINE)
        assert count == 1, name
    return text
