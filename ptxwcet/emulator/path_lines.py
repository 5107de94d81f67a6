"""Executed paths as JSON lines: a header, then a line a warp (docs/launch-files.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ptxwcet.emulator.launch import Execution, PathRun
from ptxwcet.flow.cfg import build_cfg
from ptxwcet.flow.facts import Dim3
from ptxwcet.ir.kernel import Kernel

SCHEMA = 1
"""Schema number of the format."""


def path_lines(
    kernel: Kernel, block: Dim3, grid: Dim3, file: str, execution: Execution
) -> Iterator[str]:
    """The lines, without their ends. Cost: linear in the folded paths."""
    yield _json(
        {
            "schema": SCHEMA,
            "file": file,
            "kernel": kernel.name,
            "block": block,
            "grid": grid,
            "basic_blocks": _basic_blocks(kernel),
        }
    )
    for row in execution.paths:
        x, y, _ = grid
        index = (row.block % x, row.block // x % y, row.block // (x * y))
        runs = [_plain(run) for run in row.runs]
        yield _json({"block": index, "warp": row.warp, "path": runs})


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


def _plain(run: PathRun) -> dict[str, Any]:
    path = [[block, f"{mask:08x}"] for block, mask in run.blocks]
    return {"times": run.repeats, "path": path}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
