"""Results of sweeps as ``ptxwcet sweep`` writes them: plausible, made up, the same each time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

PLAN_COLUMNS = ("tm", "tn", "tk", "rm", "rn", "param.K")
FIXED = (
    *("file", "file_sha256", "kernel", "readable", "machine", "machine_sha256"),
    *("memory_latency", "block", "grid", "method", "policy", "outcome", "of", "cycles"),
    *("seconds", "guarantee", "block_cycles", "launch_cycles", "assumptions", "code", "message"),
    *("version", "sources_sha256"),
)
INTEGERS = frozenset(("unit", "memory_latency", "cycles", "block_cycles", "launch_cycles"))
# clock in MHz, latency, SMs, cycles of a fused multiply-add for each register tile, guarantee
MACHINES = {
    "orin-ecrts2025": (930, 200, 16, 5, "safe-bound"),
    "titan-v": (1455, 375, 80, 3, "estimate"),
}
Row = dict[str, Any]


def sgemm_sweep(
    tiles: Sequence[int] = (16, 32, 64, 128),
    depths: Sequence[int] = (8, 16),
    registers: Sequence[int] = (1, 2, 4, 8),
    machines: Sequence[str] = tuple(MACHINES),
) -> list[Row]:
    """Tiles of a matrix product of 1,024: some too large for a block, some refused, one failed."""
    rows = []
    shapes = product(tiles, tiles, depths, registers, registers)
    for tm, tn, tk, rm, rn in shapes:
        threads = (tm // rm) * (tn // rn)
        if threads < 32 or threads > 2048:  # as a plan's where
            continue
        for machine in machines:
            rows.append(_row(len(rows), (tm, tn, tk, rm, rn), machine))
    return rows


def _row(unit: int, shape: tuple[int, int, int, int, int], machine: str) -> Row:
    tm, tn, tk, rm, rn = shape
    clock, latency, sms, price, guarantee = MACHINES[machine]
    block, blocks = (tn // rn, tm // rm), -(-1024 // tm) * -(-1024 // tn)
    threads = block[0] * block[1]
    row: Row = dict.fromkeys(("unit", "key", *PLAN_COLUMNS, *FIXED))
    row |= {
        "unit": unit,
        "key": _hash(f"{shape} {machine}"),
        **dict(zip(PLAN_COLUMNS, (*shape, 1024), strict=True)),
        "file": f"sgemm_{tm}x{tn}x{tk}_{rm}x{rn}.ptx",
        "file_sha256": _hash(f"{shape}"),
        "kernel": "sgemm",
        "readable": "sgemm",
        "machine": machine,
        "machine_sha256": _hash(machine),
        "memory_latency": latency,
        "block": f"{block[0]}x{block[1]}x1",
        "grid": f"{-(-1024 // tn)}x{-(-1024 // tm)}x1",
        "method": "safe",
        "version": "0.9.0",
        "sources_sha256": _hash("sources"),
    }
    if threads > 1024:
        said = f"a block of {threads:,} threads is larger than the machine's limit of 1,024"
        return row | {"outcome": "refused", "code": "PW212", "message": said}
    if (tm + tn) * tk * 4 > 12_000 and machine == "orin-ecrts2025":
        said = f"shared memory of {(tm + tn) * tk * 4:,} bytes is more than a block may have"
        return row | {"outcome": "refused", "code": "PW216", "message": said}
    if shape == (128, 128, 16, 8, 8):
        said = "its process took more than 4,096 MiB"
        return row | {"outcome": "failed", "code": "PW802", "message": said}
    steps, warps = 1024 // tk, -(-threads // 32)
    loads = (tm + tn) * tk // threads + 1
    inner = tk * (rm * rn * price + 4 * (rm + rn))
    resident = max(1, min(2048 // threads, 65536 // (threads * (24 + 2 * rm * rn))))
    block_cycles = steps * (inner * warps // 2 + loads * latency) + 2 * latency + 37 * warps
    waves = -(-blocks // (sms * resident))
    cycles = waves * (block_cycles * (3 + resident) // 4)
    return row | {
        "outcome": "bounded",
        "of": "launch",
        "cycles": cycles,
        "seconds": cycles / (clock * 1e6),
        "guarantee": guarantee,
        "block_cycles": block_cycles,
        "launch_cycles": cycles,
        "assumptions": "no-other-kernel one-memory" + " port-model" * (guarantee == "estimate"),
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_parquet(rows: Sequence[Row], path: Path, **metadata: str) -> None:
    """The rows as ``results.parquet``; ``metadata`` are keys after ``ptxwcet.``."""
    import pyarrow
    from pyarrow import parquet

    names = list(rows[0])
    plan = [name for name in names if name in PLAN_COLUMNS]
    fields = []
    for name in names:
        is_integer = name in INTEGERS or (
            name in plan and all(isinstance(row[name], int | None) for row in rows)
        )
        kind = pyarrow.int64() if is_integer else pyarrow.string()
        fields.append(pyarrow.field(name, pyarrow.float64() if name == "seconds" else kind))
    said = {"plan": "sweep.toml", "plan_sha256": _hash("plan"), "columns": json.dumps(plan)}
    schema = pyarrow.schema(
        fields, {f"ptxwcet.{key}": value for key, value in (said | metadata).items()}
    )
    columns = {name: [row[name] for row in rows] for name in names}
    parquet.write_table(pyarrow.table(columns, schema=schema), path)
