"""Which lanes and runs are where the walk is, and whether masks are exactly those of a run."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from ptxwcet.flow.values.value import Cause
from ptxwcet.support.records import dataclass

Partings = tuple[tuple[int, frozenset[Cause]], ...]
"""Blocks whose branches are unresolved, each with the reasons."""


class Reach(Enum):
    """Which runs come to where the walk stands, with at least one lane of its mask.

    ``ALWAYS``: all that the facts allow; ``ON_SIDE``: those that take the side of the innermost
    unresolved branch around; ``PERHAPS``: it is not known which.
    """

    ALWAYS = "always"
    ON_SIDE = "on side"
    PERHAPS = "perhaps"


@dataclass(frozen=True, slots=True)
class Reachability:
    """What is known of the lanes of the mask, and of others that wait elsewhere.

    ``is_exact``: the masks are those of the run, else a warp may have fewer lanes. ``has_gone``:
    lanes may have ended for good, so that the masks are no more exact. ``apart``: unresolved
    branches around whose other lanes may wait elsewhere, and why they are unresolved.
    """

    is_exact: bool = True
    has_gone: bool = False
    reach: Reach = Reach.ALWAYS
    apart: Partings = ()

    @property
    def mask_is_exact(self) -> bool:
        """Whether exactly the lanes of the mask are here."""
        return self.is_exact and not self.has_gone

    def exact_if(self, still: bool) -> Reachability:
        """This reachability; its masks remain those of the run only if they are ``still``."""
        return self if still or not self.is_exact else replace(self, is_exact=False)

    def reached(self, reach: Reach) -> Reachability:
        """This reachability in the runs that ``reach`` describes."""
        return self if reach is self.reach else replace(self, reach=reach)

    def parted(self, block: int, causes: frozenset[Cause]) -> Reachability:
        """This reachability after an unresolved branch, since which lanes may wait elsewhere."""
        return replace(self, apart=(*self.apart, (block, causes)))

    def parted_once(self, block: int, causes: frozenset[Cause]) -> Reachability:
        """Returns :meth:`parted`, or this one if lanes have parted there before."""
        return self if (block, causes) in self.apart else self.parted(block, causes)

    def gone(self) -> Reachability:
        """This reachability after an unresolved branch at which lanes may have ended."""
        return self if self.has_gone else replace(self, has_gone=True)

    def gone_as(self, *others: Reachability) -> Reachability:
        """This reachability, with the lanes that may have ended in any of others."""
        has_gone = any(other.has_gone for other in others)
        return self if has_gone is self.has_gone else replace(self, has_gone=has_gone)
