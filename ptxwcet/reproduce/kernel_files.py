"""Where the kernels of the experiments lie: in the installed package, or in a checkout."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PLACES = {
    "samples": "samples",
    "hybrid": "benchmarks/kernels/hybrid",
    "voronoi": "benchmarks/kernels/voronoi",
    "sgemm": "benchmarks/kernels/sgemm",
}
"""Folders by name, with their place in a checkout; a wheel has them in ``kernels`` beside this file
(``force-include`` of pyproject.toml)."""


def kernel_folder(name: str) -> Path:
    """The folder of this name, one of ``samples``, ``hybrid``, ``voronoi``, ``sgemm``."""
    installed = _HERE / "kernels" / name
    return installed if installed.is_dir() else _HERE.parents[1] / _PLACES[name]


def name_of(path: Path) -> str:
    """How a file in one of these folders is called: the folder's name, and its place there."""
    for name in _PLACES:
        if path.is_relative_to(kernel_folder(name)):
            return f"{name}/{path.relative_to(kernel_folder(name)).as_posix()}"
    return path.name
