"""The registry of bound methods. A new method is a file here, a row below and a page in docs.

Methods of other packages are found by the entry points ``ptxwcet.bound_methods`` (docs/python.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.bounds.gub import bound_gub
from ptxwcet.bounds.lower import bound_lower
from ptxwcet.bounds.names import OWN_NAMES, SAFE_NAME
from ptxwcet.bounds.outcome import Outcome
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.claims import Assumption, AssumptionState, Refusal
from ptxwcet.support.plugins import BOUND_METHODS, Plugin, plugins


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """A method: its name, what it is in a few words, its page, its function."""

    name: str
    title: str
    documentation: str
    evaluate: Callable[[BlockAnalysis], Outcome]


SAFE = BoundMethod(SAFE_NAME, "safe upper bound", "docs/methods/safe.md", bound_safe)
"""The method that is reported as the bound unless another one is asked for."""

METHODS: tuple[BoundMethod, ...] = (
    SAFE,
    BoundMethod("gub", "GUB as published", "docs/methods/gub.md", bound_gub),
    BoundMethod("lower", "lower bound", "docs/methods/lower-bound.md", bound_lower),
)
"""The methods that come with the tool."""


def all_methods() -> tuple[BoundMethod, ...]:
    """The methods that come with the tool, and those of other packages, under other names."""
    others = (one for one in plugins(BOUND_METHODS) if one.name not in OWN_NAMES)
    return (*METHODS, *(_plugged_in(one) for one in others))


def _plugged_in(plugin: Plugin) -> BoundMethod:
    """The method of another package.

    Its answers rest on the assumption that it is right; what it raises is its refusal.
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
        except MemoryError:  # of the computer, not of the input: no answer that can be kept
            raise
        except Exception as error:
            return Refusal(f"{source} failed: {type(error).__name__}: {error}")

    return replace(method, name=plugin.name, evaluate=evaluate)
