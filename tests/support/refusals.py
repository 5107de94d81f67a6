"""What a call that is refused says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


def refusals_of(
    call: Callable[..., object], *arguments: object, **options: object
) -> tuple[Diagnostic, ...]:
    """All problems for which the call is refused."""
    with pytest.raises(PtxwcetError) as refused:
        call(*arguments, **options)
    return tuple(refused.value.diagnostics)


def refusal_of(call: Callable[..., object], *arguments: object, **options: object) -> Diagnostic:
    """The first of them."""
    return refusals_of(call, *arguments, **options)[0]
