"""Kernels run functionally, against numpy."""

import numpy as np
import pytest
from executions import execute_first
from parsing import parse_file
from places import SAMPLES

from ptxwcet.emulator.launch import EmulatedLaunch

pytestmark = pytest.mark.fast


def run(name, block, grid, *arguments):
    path = SAMPLES / f"{name}.ptx"
    module = parse_file(path)
    launch = EmulatedLaunch(block, grid, arguments)
    return execute_first(module, launch, record_paths=True)


def test_sgemm_is_numpys_product():
    random = np.random.default_rng(1)
    a, b = random.random((32, 96), dtype="f4"), random.random((96, 64), dtype="f4")
    result = run("sgemm_naive", (32, 32, 1), (2, 1, 1), a, b, np.zeros((32, 64), "f4"), 32, 64, 96)
    assert not result.findings
    np.testing.assert_allclose(result.buffers[2], a @ b, rtol=1e-5)
    runs = [getattr(node, "repeats", 1) for node in result.paths[0].body]
    assert runs == [1, 1, 2, 1, 1]  # the last iteration does not branch back


def test_vector_add_with_a_partial_warp_and_out_of_bounds():
    a, b = np.arange(100, dtype="f4"), np.ones(100, "f4")
    result = run("vector_add", (50, 1, 1), (2, 1, 1), a, b, np.zeros(100, "f4"), 100)
    assert not result.findings
    np.testing.assert_array_equal(result.buffers[2], a + b)
    wrong = run("vector_add", (50, 1, 1), (2, 1, 1), a, b[:60], np.zeros(100, "f4"), 100)
    assert [finding.code for finding in wrong.findings] == ["PW430"]
    assert not wrong.is_complete
