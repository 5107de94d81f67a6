"""The registry of bound methods. A new method is a file here, a row below and a page in docs.

Methods of other packages are found by the entry points ``ptxwcet.bound_methods`` (ARCHITECTURE.md).
A caller that needs names only, as the command line at its start, loads no method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ptxwcet.claims import Assumption, AssumptionState, Refusal
from ptxwcet.support.plugins import BOUND_METHODS, Plugin, plugins
from ptxwcet.support.records import dataclass

if TYPE_CHECKING:
    from ptxwcet.bounds.analysis import BlockAnalysis
    from ptxwcet.bounds.outcome import Outcome

SAFE_NAME = "safe"
SCHEDULED = "scheduled"
"""The method that bounds by a known schedule's run; not registered, as it needs a policy."""


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """A method: its name, its short title, its page, its function.

    ``is_for_report`` is False for a method that is printed for comparison, and never as the bound.
    """

    name: str
    title: str
    documentation: str
    evaluate: Callable[[BlockAnalysis], Outcome]
    is_for_report: bool = True


def _safe(analysis: BlockAnalysis) -> Outcome:
    from ptxwcet.bounds.safe import bound_safe

    return bound_safe(analysis)


def _gub(analysis: BlockAnalysis) -> Outcome:
    from ptxwcet.bounds.gub import bound_gub

    return bound_gub(analysis)


def _lower(analysis: BlockAnalysis) -> Outcome:
    from ptxwcet.bounds.lower import bound_lower

    return bound_lower(analysis)


SAFE = BoundMethod(SAFE_NAME, "safe upper bound", "docs/methods/safe.md", _safe)
"""The method that is reported as the bound unless another one is requested."""

METHODS: tuple[BoundMethod, ...] = (
    SAFE,
    BoundMethod("gub", "GUB as published", "docs/refutations/gub.md", _gub, is_for_report=False),
    BoundMethod("lower", "lower bound", "docs/methods/lower-bound.md", _lower, is_for_report=False),
)
"""The methods that come with the tool."""


def names_to_report() -> tuple[str, ...]:
    """Returns the names that may be reported as the bound, without imports of other packages."""
    own = (method.name for method in METHODS if method.is_for_report)
    return (*own, SCHEDULED, *(plugin.name for plugin in _others()))


def all_methods() -> tuple[BoundMethod, ...]:
    """Returns the methods of the tool, and those of other packages under other names."""
    return (*METHODS, *map(_plugged_in, _others()))


def _others() -> tuple[Plugin, ...]:
    taken = {method.name for method in METHODS}
    return tuple(plugin for plugin in plugins(BOUND_METHODS) if plugin.name not in taken)


def _plugged_in(plugin: Plugin) -> BoundMethod:
    """Returns the method of another package.

    Its answers depend on the assumption that it is right; its exceptions become refusals.
    """
    source = f"method {plugin.name} of package {plugin.package}"
    try:
        method = plugin.load()
        if not isinstance(method, BoundMethod):
            raise TypeError(f"it is a {type(method).__name__}, not a BoundMethod")
    except Exception as error:
        reason = f"{source} cannot be loaded: {error}"
        return BoundMethod(plugin.name, source, "", lambda _: Refusal(reason))
    is_right = Assumption(
        f"method-{plugin.name}", f"the {source} is right", AssumptionState.ASSUMED, plugin.package
    )

    def evaluate(analysis: BlockAnalysis) -> Outcome:
        try:
            outcome = method.evaluate(analysis)
            if isinstance(outcome, Refusal):
                return outcome
            claim = outcome.claim
            rests_on = (*claim.assumptions, is_right)
            return replace(outcome, method=plugin.name, claim=replace(claim, assumptions=rests_on))
        # Memory of the computer, not a property of the input: no answer that can be cached.
        except MemoryError:
            raise
        except Exception as error:
            return Refusal(f"{source} failed: {type(error).__name__}: {error}")

    return replace(method, name=plugin.name, evaluate=evaluate)
