"""Sweeps of approximations over all operands: ``sweeps.cu`` as cases, and how to read its rows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from kit import Kit

SOURCE = Path(__file__).with_name("sweeps.cu")
ROW = np.dtype(
    [
        ("inputs", "u8"),
        ("distance", "u8", 8),
        ("furthest", "u8"),
        ("relative", "u8"),
        ("absolute", "u8"),
        ("near_relative", "u8"),
        ("near_absolute", "u8"),
        ("breaks", "u8"),
        ("first_break", "u8"),
        ("examples", "u8"),
        ("operand", "u4", 16),
        ("result", "u4", 16),
    ]
)
"""What a sweep leaves."""
SAMPLES = 1 << 14


def sample_operands() -> Any:
    """The patterns of the samples of a function."""
    number = np.arange(SAMPLES, dtype=np.uint32)
    return number << np.uint32(18) | number * np.uint32(40503) & np.uint32(0x3FFFF)


def names() -> list[str]:
    """The kernels, by the symbols of the cubin."""
    text = SOURCE.read_text(encoding="utf-8")
    found = []
    for name in re.findall(r"^UNARY\((\w+),", text, re.M):
        found += [f"sweep_{name}", f"sample_{name}"]
    for name in re.findall(r"^BOTH\((\w+),", text, re.M):
        for one in (name, f"{name}_ftz"):
            found += [f"sweep_{one}", f"sample_{one}"]
    found += [f"far_{name}" for name in re.findall(r"^FAR\((\w+),", text, re.M)]
    for kind in ("BINARY", "DOUBLE"):
        found += [f"sweep_{name}" for name in re.findall(rf"^{kind}\((\w+),", text, re.M)]
    found += [f"half_{name}" for name in re.findall(r"^HALF\((\w+),", text, re.M)]
    return found


def add(kit: Kit) -> None:
    """A case of each kernel; what they leave comes back as it is."""
    with TemporaryDirectory() as place:
        cubin = Path(place) / "k.cubin"
        command = ["nvcc", "-arch=sm_90", "-cubin", "-O3", str(SOURCE), "-o", str(cubin)]
        subprocess.run(command, check=True)
        data = cubin.read_bytes()
    cases = []
    for name in names():
        grid, size = (4096, 1, 1), ROW.itemsize
        if name.startswith("sample_"):
            grid, size = (SAMPLES // 256, 1, 1), 4 * SAMPLES
        elif name.startswith("half_"):
            grid, size = (256, 1, 1), 2 << 16
        cases.append(
            {
                "name": name,
                "kernel": name,
                "grid": grid,
                "block": (256, 1, 1),
                "arguments": [{"size": size, "check": True}],
            }
        )
    cases.sort(key=lambda case: not str(case["name"]).startswith("sweep_"))
    kit.module("sweeps", "sweeps", {"O0": data}, cases)
