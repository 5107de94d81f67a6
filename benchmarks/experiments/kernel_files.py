"""Where the kernels of the experiments lie."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PLACES = {
    "samples": "samples",
    "hybrid": "benchmarks/kernels/hybrid",
    "voronoi": "benchmarks/kernels/voronoi",
    "sgemm": "benchmarks/kernels/sgemm",
}


def kernel_folder(name: str) -> Path:
    """The folder of this name, one of ``samples``, ``hybrid``, ``voronoi``, ``sgemm``."""
    return _ROOT / _PLACES[name]


def name_of(path: Path) -> str:
    """How a file in one of these folders is called: the folder's name, and its place there."""
    for name in _PLACES:
        if path.is_relative_to(kernel_folder(name)):
            return f"{name}/{path.relative_to(kernel_folder(name)).as_posix()}"
    return path.name
