"""Numbers that wait, once each, in their order."""

import pytest

from ptxwcet.support.worklist import Worklist

pytestmark = pytest.mark.fast


def test_the_smallest_comes_first_and_once() -> None:
    waiting = Worklist([3, 1, 3])
    waiting.add([2, 1])
    assert [waiting.pop(), waiting.pop()] == [1, 2]
    waiting.add([1, 1])
    assert [waiting.pop(), waiting.pop()] == [1, 3]
    assert not waiting


def test_ranks_decide_the_order() -> None:
    waiting = Worklist([0, 1, 2], ranks=[2, 0, 1])
    assert waiting
    assert [waiting.pop() for _ in range(3)] == [1, 2, 0]
