"""Every sample gets a bound, or the refusal that it is there to show."""

import pytest
from answers import only_answer
from places import SAMPLES

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

# file, block, grid, parameters -> bounded kernels (all others refuse with the code given)
CASES = [
    ("vector_add", "256", "4", ("n=1000",), 1, ()),
    ("saxpy", "256", "4", ("n=100000",), 1, ()),
    ("transpose_naive", "32x8", "32x125", ("width=1000", "height=1000"), 1, ()),
    ("transpose_tiled", "32x8", None, (), 1, ()),
    ("sgemm_naive", "32x32", None, ("M=1024", "N=1024", "K=1024"), 1, ()),
    ("sgemm_double_buffered", "32x32", None, ("K=1024",), 1, ()),
    ("sgemm_cp_async", "32x32", None, ("K=1024",), 1, ()),
    ("block_reduce", "256", None, ("n=10000",), 2, ()),
    ("scan", "1024", None, (), 1, ()),
    ("bitonic_sort", "1024", None, (), 1, ()),
    ("histogram", "256", "8", ("n=100000",), 1, ()),
    ("mandelbrot", "32x8", None, ("most=100",), 1, ()),
    ("stencil_2d", "32x8", None, (), 1, ()),
    ("convolution", "128", "8", ("n=1000",), 1, ()),
    ("triangular", "128", None, ("n=1000000",), 2, ()),
    ("loops", "64", None, ("n=1000",), 14, ("PW203", "PW203")),
]


@pytest.mark.parametrize(
    ("name", "block", "grid", "parameters", "bounded", "codes"), CASES, ids=[c[0] for c in CASES]
)
def test_sample(
    name: str,
    block: str,
    grid: str | None,
    parameters: tuple[str, ...],
    bounded: int,
    codes: tuple[str, ...],
) -> None:
    path = str(SAMPLES / f"{name}.ptx")
    answer = bound_file(Request(path, block=block, grid=grid, parameters=parameters))
    assert tuple(row.diagnostics[0].code for row in answer.refused) == codes
    assert len(answer.answered) == bounded
    for row in answer.answered:
        lower = row.worst.outcomes["lower"]
        cycles = getattr(lower, "cycles", None)
        assert cycles is None or cycles <= row.worst.bound.cycles


def test_mandelbrot_with_a_bound_from_the_user() -> None:
    request = Request(
        str(SAMPLES / "mandelbrot.ptx"),
        block="32x8",
        parameters=("most=100",),
        loop_bounds=("$L__BB0_2=60",),
    )
    row = only_answer(request)
    keys = [a.key for a in row.worst.bound.claim.assumptions]
    assert keys == ["alone-on-its-sm", "aligned-pointers", "user-loop-bounds"]


def test_every_kernel_file_is_a_case() -> None:
    compiled = {path.stem for path in SAMPLES.glob("*.cu")}
    assert compiled == {case[0] for case in CASES}


@pytest.mark.parametrize("count", [10**3, 10**9])
def test_cost_does_not_grow_with_trip_counts(count: int) -> None:
    """The same number of simulated instructions for a thousand and for a billion columns."""
    request = Request(
        str(SAMPLES / "sgemm_naive.ptx"), block="32x32", parameters=(f"K={count // 32 * 32}",)
    )
    row = only_answer(request)
    sections = row.worst.analysis.sections
    steps = sum(w.profile.simulated_steps for s in sections for w in s.warps if w is not None)
    assert len(sections) == 7
    assert steps <= 600
