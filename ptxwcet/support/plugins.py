"""What other packages plug in, by the entry points of their metadata.

An entry of :data:`MACHINES` is the path of a machine file, one of :data:`BOUND_METHODS` a
:class:`~ptxwcet.bounds.methods.BoundMethod`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

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
    found: dict[str, Plugin] = {}
    entries = [(one.dist.name if one.dist else "", one) for one in entry_points(group=group)]
    for package, entry in sorted(entries, key=lambda row: (row[1].name, row[0])):
        found.setdefault(entry.name, Plugin(entry.name, package, entry))
    return tuple(found.values())
