"""The names of bound methods, for those who only ask whether there is one: nothing is imported."""

from __future__ import annotations

from ptxwcet.support.plugins import BOUND_METHODS, plugins

SAFE_NAME = "safe"
SCHEDULED = "scheduled"
"""What takes a known schedule's run for the bound: no row of the registry, it needs a policy."""

OWN_NAMES = (SAFE_NAME, "gub", "lower")
"""The methods that come with the tool, in the registry's order (methods.py)."""


def other_names() -> tuple[str, ...]:
    """The names of the methods of other packages. Nothing of them is imported."""
    return tuple(one.name for one in plugins(BOUND_METHODS) if one.name not in OWN_NAMES)


def names_to_report() -> tuple[str, ...]:
    """What may be reported as the bound."""
    return (SAFE_NAME, SCHEDULED, *other_names())
