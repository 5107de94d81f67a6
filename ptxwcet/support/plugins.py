"""Finds the plug-ins of other packages, by the entry points of their metadata.

An entry of :data:`MACHINES` is the path of a machine file, one of :data:`BOUND_METHODS` a
:class:`~ptxwcet.bounds.methods.BoundMethod`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxwcet.support.records import dataclass

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

MACHINES, BOUND_METHODS = "ptxwcet.machines", "ptxwcet.bound_methods"
GROUPS = (MACHINES, BOUND_METHODS)


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry of a group: its name, its package, and its place."""

    name: str
    package: str
    entry: EntryPoint

    def load(self) -> Any:
        """Returns the object. Raises any exception of its package's import."""
        return self.entry.load()


@cache
def plugins(group: str) -> tuple[Plugin, ...]:
    """Returns the entries of a group, by name; for equal names the first package's, in order.

    Nothing is imported. Cost: one look at the metadata of all installed packages.
    """
    if not _may_name(group):
        return ()
    # Imported here: it loads mail and archives, which takes longer than most kernels.
    from importlib.metadata import entry_points

    first: dict[str, Plugin] = {}
    entries = [(e.dist.name if e.dist else "", e) for e in entry_points(group=group)]
    for package, entry in sorted(entries, key=lambda pair: (pair[1].name, pair[0])):
        first.setdefault(entry.name, Plugin(entry.name, package, entry))
    return tuple(first.values())


def _may_name(group: str) -> bool:
    """Returns whether a package on the path names a group: True, too, where metadata may be
    elsewhere than in folders next to packages.
    """
    finders = sum(hasattr(f, "find_distributions") for f in sys.meta_path)
    if finders != 1 or any(Path(p).is_file() or p.endswith(".egg") for p in sys.path):
        return True
    mark = f"[{group}]".encode()
    for folder in sys.path:
        with contextlib.suppress(OSError):
            for name in os.listdir(folder or os.curdir):
                if name.endswith((".dist-info", ".egg-info")):
                    with contextlib.suppress(OSError):
                        if mark in Path(folder, name, "entry_points.txt").read_bytes():
                            return True
    return False
