"""Loops that some data never end: none of them may have a bound.

Each kernel misleads one rule of the analysis of an iteration: a conversion that reads a part of a
register, an amount that wraps around, bits beyond a type. By hand: the counter that should fall is
restored in each iteration for the data that the kernel's name tells of in the reviewed rule.
"""

from pathlib import Path

import pytest
from answers import only_refusal
from places import FLOW

from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

KERNELS = sorted((FLOW / "endless").glob("*.ptx"))


def test_there_are_kernels() -> None:
    assert len(KERNELS) == 7


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_no_bound(path: Path) -> None:
    row = only_refusal(Request(str(path), block="32", grid="1"))
    assert row.diagnostics[0].code in ("PW203", "PW205")
