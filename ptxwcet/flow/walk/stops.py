"""What ends a walk before it has a path: groups to be walked apart, open decisions, refusals.

:class:`SplitWarps` and :class:`~ptxwcet.flow.values.regions.SplitRequest` restart it on less,
:class:`DivergesForGood` goes back to a loop around, :class:`Infeasible` to the branch around whose
other side remains; the others are the walk's answer.
"""

from __future__ import annotations

from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.values.value import Cause


class Infeasible(Exception):
    """Facts exclude the side of a branch that is being walked: no run takes it.

    ``reason`` says which facts, and where; it is the answer if no other side is left.
    """

    def __init__(self, reason: Refused) -> None:
        super().__init__(str(reason))
        self.reason = reason


class SplitWarps(Exception):
    """The warps of the group take different paths: walk these groups apart."""

    def __init__(self, groups: tuple[tuple[int, ...], ...]) -> None:
        super().__init__(f"{len(groups)} groups")
        self.groups = groups


class Undecided(Exception):
    """The outcome at ``instruction`` (an index) is not known for ``causes``, or ``reason``."""

    def __init__(self, instruction: int, causes: frozenset[Cause], reason: str = "") -> None:
        super().__init__(f"instruction {instruction} is undecided")
        self.instruction = instruction
        self.causes = causes
        self.reason = reason


class DivergesForGood(Exception):
    """Parts of a warp go through the rest of ``loop`` one after the other."""

    def __init__(self, loop: Loop, block: int, causes: frozenset[Cause]) -> None:
        super().__init__(f"at block {block}")
        self.loop = loop
        self.block = block
        self.causes = causes


class Refused(Exception):
    """The path cannot be extracted at ``instruction`` (an index): code, reason and remedy."""

    def __init__(self, code: str, instruction: int, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.code = code
        self.instruction = instruction
        self.reason = reason
        self.remedy = remedy


def never_ends(index: int) -> Refused:
    """Refuses the loop whose header begins at instruction ``index``: it goes on for ever."""
    return Refused(
        "PW205",
        index,
        "the loop never ends: nothing that changes in it decides whether it goes on",
        "check the parameters and the launch: with these facts the kernel does not stop",
    )


def aborted(index: int) -> Refused:
    """Refuses instruction ``index``, at which every launch is aborted."""
    return Refused(
        "PW225",
        index,
        "every launch is aborted here: the trap is executed, or the assertion fails",
        "check the parameters and the launch: the bound is that of launches that are not aborted",
    )


def no_meeting(index: int) -> Refused:
    """Refuses the branch at instruction ``index``: its sides do not meet."""
    return Refused(
        "PW224",
        index,
        "a divergent branch has no point where its sides meet again",
        "every path from the branch must be able to end",
    )


def not_counted(index: int) -> Refused:
    """Refuses what counts at an mbarrier where the branch behind it is not decided."""
    return Refused(
        "PW222",
        index,
        "whether all lanes of the warp come here, or whether some have ended or are elsewhere, is "
        "not known: so is not how many arrive at the mbarrier",
        "give the parameters that decide the branches before it and behind it",
    )
