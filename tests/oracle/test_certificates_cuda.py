"""Loops of CUDA code, as nvcc -O3 compiles them: bounded by certificates where they end.

The numbers of iterations are by hand, from the sources in ``tests/data/certificates``.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache

import pytest
from answers import only_answer, only_refusal
from parsing import parse_file
from places import DATA

from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.report import Report
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.certificates.report import recheck
from ptxwcet.flow.certificates.checker import Verdict
from ptxwcet.flow.walk.path import PathLoop, loop_entries
from ptxwcet.opened.request import Request
from ptxwcet.report.reading import read_as

FOLDER = DATA / "certificates"
ENDLESS = [kernel.name for kernel in parse_file(FOLDER / "endless.ptx").kernels]

RANGES = {
    "sift_down": ("sift_down_param_1=1..1000",),
    "doubled": ("doubled_param_1=1..100000",),
    "shifted": ("shifted_param_1=1..100000",),
    "doubled_from_data": ("doubled_from_data_param_2=1..100000",),
}


@cache
def request(kernel: str, file: str) -> Request:
    parameters = RANGES.get(kernel, ())
    return Request(str(FOLDER / file), (kernel,), block="32", grid="1", parameters=parameters)


def entries(kernel: str) -> list[PathLoop]:
    row = only_answer(request(kernel, "loops.ptx"))
    warps = [warp for piece in row.pieces for warp in piece.paths.warps]
    return [entry for warp in warps for entry in loop_entries(warp.nodes)]


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("kernel", "least", "most"),
    [
        ("digits", 10, 10),  # 2**31 has 10 digits
        ("digits_long", 19, 22),  # the solver confirms that 8 times less is left, not 10 times
        ("thirds", 20, 20),
        ("ffs_and", 32, 32),
        ("ffs_minus", 32, 32),
        ("ffs_xor", 32, 32),
        ("clz_and", 32, 32),
        ("clz_minus", 32, 32),
        ("ffs_long", 64, 64),
        ("averages", 10, 10),  # 1023, 511, ..., 1
        ("doubled", 17, 17),  # 1, ..., 65536
        ("shifted", 17, 17),
        ("doubled_from_data", 17, 17),
        ("short_counter", 32767, 32767),
        ("unsigned_short_counter", 65531, 65531),
        ("root_signed", 12, 22),  # from 500,000 halved to 7 or so, then nearer and nearer
        ("common_swapped", 32, 64),
        ("lower_by_test", 1024, 1024),  # 1023, 1022, ..., 0
    ],
)
def test_bounded_by_certificates(kernel: str, least: int, most: int) -> None:
    found = entries(kernel)
    assert {entry.obtained for entry in found} <= {"analysis", "certificate"}
    assert any(entry.obtained == "certificate" for entry in found)
    assert least <= max(entry.iterations.base for entry in found) <= most


def test_a_heap_is_as_high_as_its_size_says() -> None:
    """1, 3, ..., 511 are below 1000: 9 levels, of which the last is left in its middle or not."""
    assert 8 <= max(entry.iterations.base for entry in entries("sift_down")) <= 9


@pytest.mark.every(4)
@pytest.mark.parametrize("kernel", ENDLESS)
def test_loops_that_may_not_end_have_no_bound(kernel: str) -> None:
    row = only_refusal(request(kernel, "endless.ptx"))
    assert row.diagnostics[0].code in ("PW203", "PW205", "PW206")


def test_there_are_enough_of_them() -> None:
    assert len(ENDLESS) >= 20


@pytest.mark.parametrize("kernel", ["digits", "ffs_minus", "averages", "shifted", "root_signed"])
def test_reports_are_confirmed_by_the_checker_alone(kernel: str) -> None:
    report = build_report(bound_file(request(kernel, "loops.ptx")))
    read = read_as(Report, json.loads(json.dumps(asdict(report))))
    module = parse_file(FOLDER / "loops.ptx")
    found = list(recheck(read, module))
    assert found
    assert {one.verdict for one in found} == {Verdict.CONFIRMED}
