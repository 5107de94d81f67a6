"""The kernel around one instruction: loads, stores and predicates of every width."""

import numpy as np
import pytest
from single_instruction import evaluate


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8"])
def test_values_pass_through(kind):
    bits = 8 * np.dtype(kind).itemsize
    values = np.arange(3000).astype(kind)
    text = f"mov.b{max(16, bits)} %r0, %a;"
    np.testing.assert_array_equal(evaluate(text, [values], [kind]), values)


def test_predicates():
    values = np.array([True, False, True])
    np.testing.assert_array_equal(evaluate("not.pred %r0, %a;", [values], [bool]), ~values)
