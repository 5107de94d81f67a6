"""What other packages plug in, by the entry points of their metadata.

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
    """An entry of a group: its name, the package that it is from, and where it is."""

    name: str
    package: str
    entry: EntryPoint

    def load(self) -> Any:
        """The object. Raises whatever its package raises when it is imported."""
        return self.entry.load()


@cache
def plugins(group: str) -> tuple[Plugin, ...]:
    """The entries of a group, by name; of several with one name the first package's, in order.

    Nothing is imported. Cost: one look at the metadata of all installed packages.
    """
    if not _may_name(group):
        return ()
    # here: it loads mail and archives, which takes longer than most kernels
    from importlib.metadata import entry_points

    found: dict[str, Plugin] = {}
    entries = [(one.dist.name if one.dist else "", one) for one in entry_points(group=group)]
    for package, entry in sorted(entries, key=lambda row: (row[1].name, row[0])):
        found.setdefault(entry.name, Plugin(entry.name, package, entry))
    return tuple(found.values())


def _may_name(group: str) -> bool:
    """Whether a package on the path names a group: True as well where metadata may be elsewhere
    than in folders beside packages.
    """
    finders = sum(hasattr(one, "find_distributions") for one in sys.meta_path)
    if finders != 1 or any(Path(one).is_file() or one.endswith(".egg") for one in sys.path):
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
