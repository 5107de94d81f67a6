"""Describes the installation: versions, and digests of the sources and of the machine files."""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from ptxwcet.support.records import dataclass
from ptxwcet.support.version import VERSION

_LIBRARIES = ("numpy", "numba")


@dataclass(frozen=True, slots=True)
class Digest:
    """The SHA-256 of a file, or of several together."""

    what: str
    sha256: str


def installed_versions() -> tuple[tuple[str, str], ...]:
    """Returns the versions of ptxwcet, Python and the libraries that affect results, by name."""
    libraries = []
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            libraries.append((name, metadata.version(name)))
    return (("ptxwcet", VERSION), ("python", platform.python_version()), *libraries)


def describe_installation() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Returns versions of the installation, and digests of sources and machine files, by name."""
    return dict(installed_versions()), {d.what: d.sha256 for d in installed_digests()}


def describe_sources() -> str:
    """Returns the SHA-256 of the package's Python sources: paths and contents, sorted by path."""
    package = Path(__file__).parents[1]
    whole = hashlib.sha256()
    for path in sorted(package.rglob("*.py"), key=lambda path: path.relative_to(package).parts):
        whole.update(path.relative_to(package).as_posix().encode() + b"\0")
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def installed_digests() -> tuple[Digest, ...]:
    """Returns digests of the package's Python sources together, and of each machine file."""
    package = Path(__file__).parents[1]
    machines = (
        Digest(f"machine {path.stem}", hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted((package / "machine" / "models").glob("*.toml"))
    )
    return (Digest("sources", describe_sources()), *machines)
