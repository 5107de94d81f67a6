"""Writes files of results completely or not at all: arrays, and executed paths.

Paths are JSON lines: a header, the paths, the warps (docs/launch-files.md).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptxwcet.emulator.launch import Execution, PathNode, PathStep
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.launch import Dim3
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.array_files import Array
from ptxwcet.support.whole_files import whole_file

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # zip's earliest date: equal arrays make equal files


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes a ``.npz`` that ``numpy.load`` reads, an entry per array, in order.

    Raises PtxwcetError (PW429). Cost: linear in the arrays.
    """
    with whole_file(path, "PW429") as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _FIRST_DAY)
            with archive.open(entry, "w", force_zip64=True) as part:
                np.lib.format.write_array(part, array, allow_pickle=False)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines of text in UTF-8, as write_text does. Raises PtxwcetError (PW429)."""
    with whole_file(path, "PW429") as file:
        file.writelines(line.encode("utf-8", "backslashreplace") + b"\n" for line in lines)


SCHEMA = 1
"""The schema number of the format."""


def path_lines(execution: Execution, block: Dim3, grid: Dim3, file: str) -> Iterator[str]:
    """Yields lines without their ends. Cost: linear in the distinct paths and in the warps."""
    yield _json(
        {
            "schema": SCHEMA,
            "file": file,
            "kernel": execution.kernel.name,
            "block": block,
            "grid": grid,
            "basic_blocks": _basic_blocks(execution.kernel),
        }
    )
    numbers: dict[int, int] = {}  # by identity: equal paths are the same object
    for warp in execution.paths:
        number = numbers.get(id(warp.body))
        if number is None:
            number = numbers[id(warp.body)] = len(numbers)
            yield _json({"path": number, "steps": [_plain(node) for node in warp.body]})
        x, y, _ = grid
        index = (warp.block % x, warp.block // x % y, warp.block // (x * y))
        yield _json({"block": index, "warp": warp.warp, "path": number})


def _basic_blocks(kernel: Kernel) -> list[dict[str, Any]]:
    cfg = build_cfg(kernel)
    return [
        {
            "name": cfg.name(block.id),
            "instructions": [block.start, block.end],
            "lines": [
                kernel.instructions[block.start].span.line,
                kernel.instructions[block.end - 1].span.line,
            ],
        }
        for block in cfg.blocks[:-1]
    ]


def _plain(node: PathNode) -> Any:
    if isinstance(node, PathStep):
        return [node.block, f"{node.mask:08x}", f"{node.taken:08x}"]
    return {"times": node.repeats, "steps": [_plain(inner) for inner in node.body]}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
