"""What is known of a symbol on one side of a branch that tests it, and on the other."""

from __future__ import annotations

from dataclasses import replace

from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import Condition, Known, Mask, Unknown, substitute
from ptxwcet.flow.walk.open_branch import Narrowed, OpenBranch
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.ir.kernel import Guard


def condition_of(walk: WalkState, guard: Guard | None, mask: Mask) -> Condition | None:
    """What a guard says of a symbol where it holds."""
    value = None if guard is None else walk.state.registers.get(guard.register)
    if guard is None or not isinstance(value, Unknown) or value.condition is None:
        return None
    if not value.condition.holds_in(mask):
        return None
    return value.condition.negated() if guard.negated else value.condition


def narrow(walk: WalkState, sides: OpenBranch, *, taken: bool) -> Narrowed | None:
    """Makes use of what is known on one side of a branch, in all registers."""
    condition = sides.condition
    interval = None
    if condition is not None:
        interval = condition.when if taken else condition.otherwise
    if condition is None or interval is None:
        return None
    old, (first, last) = condition.symbol, interval
    new = replace(old, name=f"{old.name}'", count=last - first + 1, slopes={})
    if not new.is_own:
        walk.parameters.append(new)
    narrowed = Narrowed(old, new, first)
    _replace(walk, old, first, new)
    return narrowed


def widen(walk: WalkState, narrowed: Narrowed | None) -> None:
    """Undoes :func:`narrow` in registers, where sides of a branch meet."""
    if narrowed is not None:
        _replace(walk, narrowed.new, -narrowed.first, narrowed.old)


def _replace(walk: WalkState, symbol: Symbol, offset: int, by: Symbol) -> None:
    """Puts ``by + offset`` in the place of a symbol."""
    for name, value in walk.state.registers.items():
        if isinstance(value, Known) and symbol in value.terms:
            width = walk.graph.width(name)
            walk.state.registers[name] = substitute(value, symbol, offset, {by: 1}, width)
