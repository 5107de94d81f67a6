"""What a part of the analysis may cost, counted in steps: the same on every machine.

A step is about the same work wherever it is counted. A budget that is used up ends what it was
given for; a kernel is then refused, and the refusal names the loop and the fact that would help.
"""

from __future__ import annotations

from ptxwcet.support.records import dataclass


class TooMuchEffort(Exception):
    """A budget is used up, or there are more ways than are followed."""


@dataclass(slots=True, eq=False)
class Effort:
    """Steps that have been ``spent``, of ``most``.

    ``visited`` are blocks that were passed meanwhile, which takes little and is not limited here.
    """

    most: int
    spent: int = 0
    visited: int = 0

    def spend(self, steps: int) -> None:
        """Counts steps. Raises TooMuchEffort if there were too many."""
        self.spent += steps
        if self.spent > self.most:
            raise TooMuchEffort
