"""What ``device.py`` reads: cubins, what buffers begin with, checksums, and a list of cases."""

from __future__ import annotations

import hashlib
import json
import lzma
import subprocess
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVELS = ("O0", "O3")


class Kit:
    """A kit as it is filled."""

    def __init__(self, phases: Iterable[str]) -> None:
        self.files: dict[str, tuple[int, int]] = {}
        self.parts: list[bytes] = []
        self.size = 0
        self.sums: list[int] = []
        self.modules: list[dict[str, Any]] = []
        self.phases = list(phases)

    def file(self, data: bytes, name: str = "") -> str:
        """Keeps bytes once; their name."""
        name = name or hashlib.sha1(data).hexdigest()[:12]
        if name not in self.files:
            self.files[name] = self.size, len(data)
            self.parts.append(data)
            self.size += len(data)
        return name

    def checked(self, data: bytes, piece: int, **more: Any) -> dict[str, Any]:
        """A buffer that is to hold this behind the launch."""
        first = len(self.sums)
        self.sums += [zlib.crc32(data[at : at + piece]) for at in range(0, len(data), piece)]
        return {"size": len(data), "check": True, "sums": first, "piece": piece} | more

    def module(self, phase: str, name: str, cubins: dict[str, bytes], cases: Any) -> None:
        """A module with its cases."""
        kept = {level: self.file(data) for level, data in cubins.items()}
        self.modules.append({"phase": phase, "name": name, "cubins": kept, "cases": cases})

    def write(self, folder: Path) -> None:
        """Writes the three files that ``device.py`` reads."""
        folder.mkdir(parents=True, exist_ok=True)
        manifest = {
            "phases": self.phases,
            "levels": list(LEVELS),
            "files": self.files,
            "modules": self.modules,
        }
        (folder / "manifest.xz").write_bytes(lzma.compress(json.dumps(manifest).encode()))
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 1 << 27}]
        data = lzma.compress(b"".join(self.parts), lzma.FORMAT_XZ, filters=filters)
        (folder / "data.xz").write_bytes(data)
        (folder / "sums.bin").write_bytes(np.array(self.sums, np.uint32).tobytes())


def assembled(text: str, levels: Iterable[str] = LEVELS) -> dict[str, bytes]:
    """A module by ptxas for sm_90a, without what says where instructions come from."""
    found = {}
    with tempfile.TemporaryDirectory() as place:
        source, cubin = Path(place) / "k.ptx", Path(place) / "k.cubin"
        source.write_text(text)
        for level in levels:
            command = ["ptxas", "-arch=sm_90a", f"-{level}", str(source), "-o", str(cubin)]
            subprocess.run(command, check=True, capture_output=True)
            found[level] = cubin.read_bytes()
    return found


def argument(data: NDArray[Any], kit: Kit) -> dict[str, Any]:
    """What a buffer begins with."""
    return {"from": kit.file(np.ascontiguousarray(data).tobytes()), "size": data.nbytes}
