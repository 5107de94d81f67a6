"""False statements about where lanes go on together: each leaves out a rule of the product's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ptxwcet.flow.graph import control_flow, reconvergence
from ptxwcet.ir.op_classes import Convergence

_Meetings = reconvergence._Meetings


def _immediate(_: Any, __: Any, postdominators: Any) -> Any:
    return reconvergence.Reconvergence(postdominators.immediate)


def _no_break(instruction: Any, index: int, state: Any, step: Any = reconvergence._step) -> Any:
    return (
        (state, ())
        if instruction.convergence is Convergence.LEAVES
        else step(instruction, index, state)
    )


def _no_drop_at_bsync(
    instruction: Any, index: int, state: Any, step: Any = reconvergence._step
) -> Any:
    if instruction.convergence is not Convergence.WAITS:
        return step(instruction, index, state)
    name = reconvergence._barrier(instruction)
    return tuple(one for one in state if name not in one.names), ()


def _guarded_sets(instruction: Any, index: int, state: Any, step: Any = reconvergence._step) -> Any:
    if instruction.convergence is Convergence.SETS and instruction.guard is not None:
        name = reconvergence._barrier(instruction)
        opened = reconvergence._Open(frozenset([name]), frozenset([index]))
        return (*reconvergence._without(state, [name]), opened), ()
    return step(instruction, index, state)


def _sites_between(self: Any, place: int, between: Any, joins: Any = _Meetings._joins) -> bool:
    first = self._kernel.instructions[self._bounds(place)[0]]
    if first.guard is None and first.convergence is Convergence.WAITS:
        name = reconvergence._barrier(first)
        return any(name in one.names for one in self._states.get(place, ()))
    return bool(joins(self, place, between))


def _any_gathering(self: Any, place: int, between: Any, joins: Any = _Meetings._joins) -> bool:
    return bool(self._gathers_all(place) or joins(self, place, between))


def _no_drop_at_warpsync(self: Any, block: Any, state: Any, behind: Any = _Meetings._behind) -> Any:
    with patch.object(self, "_apart", {}):
        return list(behind(self, block, state))


def _any_mask(self: Any, block: Any) -> bool:
    start, end = self._bounds(block)
    first = self._kernel.instructions[start] if start < end else None
    return first is not None and first.convergence is Convergence.GATHERS


def _before_it_waits(self: Any, branch: Any, first: Any = _Meetings._first_meeting) -> Any:
    class Silent:
        waits = ()

    class Code:
        encoded = [Silent] * len(self._kernel.instructions)

    with patch.object(self, "_code", Code):
        return first(self, branch)


def _no_break_condition(left: Any, holding: Any, *, is_taken: bool) -> bool:
    return False


CONTROLS: Mapping[str, tuple[Any, str, Callable[..., Any]]] = {
    "lanes go on together at the immediate post-dominator": (
        control_flow,
        "reconvergence_of",
        _immediate,
    ),
    "BREAK leaves no barrier": (reconvergence, "_step", _no_break),
    "who has left by BREAK comes no way behind a branch": (
        reconvergence,
        "_may_hold",
        _no_break_condition,
    ),
    "BSYNC drops nothing that was set behind it": (reconvergence, "_step", _no_drop_at_bsync),
    "a BSYNC joins though its barrier is set between": (_Meetings, "_joins", _sites_between),
    "a WARPSYNC joins though another lies between": (_Meetings, "_joins", _any_gathering),
    "a WARPSYNC drops nothing that was set before it": (
        _Meetings,
        "_behind",
        _no_drop_at_warpsync,
    ),
    "a WARPSYNC of any mask joins all lanes": (_Meetings, "_gathers_all", _any_mask),
    "a guarded BSSY registers all lanes": (reconvergence, "_step", _guarded_sets),
    "lanes are joined before they wait for scoreboards": (
        _Meetings,
        "_first_meeting",
        _before_it_waits,
    ),
}
"""By what is false: the object, its attribute, and what takes its place."""


@contextmanager
def claimed(name: str) -> Iterator[None]:
    """Within it the product believes a false statement."""
    place, attribute, change = CONTROLS[name]
    with patch.object(place, attribute, change):
        yield
