"""Files of results: a line of JSON for each experiment, then its data, compressed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np


class Sink:
    """Where results of a group go: all of them, or from a size on the least, median and largest.

    Counts what is tried, so that another process can go on behind what failed.
    """

    def __init__(self, path: Path, skipped: int = 0, failed: tuple[str, ...] = ()) -> None:
        self.failed = failed
        self.file, self.left = path.open("ab"), 1_300_000 - path.stat().st_size
        self.tried, self.skipped, self.count = path.with_suffix(".at"), skipped, 0

    def next(self, kernel: str) -> bool:
        """Whether the next experiment is to be done, with a kernel that has not failed yet."""
        self.count += 1
        if self.count <= self.skipped or kernel in self.failed:
            return False
        self.tried.write_text(f"{self.count} {kernel}")
        return True

    def put(self, about: dict[str, object], data: np.ndarray) -> None:
        if self.left < 0 and data.ndim == 4:
            along = (0, 1, 2)
            three = data.min(along), np.median(data, along), data.max(along)
            about, data = {**about, "reduced": True}, np.stack(three).astype("int32")
        about = {**about, "shape": data.shape, "dtype": str(data.dtype)}
        packed = zlib.compress(np.ascontiguousarray(data).tobytes(), 6)
        self.left -= len(packed)
        self.file.write((json.dumps({**about, "packed": len(packed)}) + "\n").encode())
        self.file.write(packed)
        self.file.flush()


def read(path: Path) -> Iterator[tuple[dict[str, object], np.ndarray]]:
    """What a group gave, up to where it was cut off."""
    raw, at = path.read_bytes(), 0
    while (end := raw.find(b"\n", at)) >= 0:
        about = json.loads(raw[at:end])
        at = end + 1
        packed = raw[at : at + about["packed"]]
        at += about["packed"]
        if len(packed) < about["packed"]:
            return
        data = np.frombuffer(zlib.decompress(packed), about["dtype"]).reshape(about["shape"])
        yield about, data
