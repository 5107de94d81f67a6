"""Some of the plain code of benchmarks/kernels/plain: what is bounded stays bounded.

All of it is counted by ``python benchmarks/reach.py plain``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from answers import only_answer
from places import ROOT

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

FOLDER = ROOT / "benchmarks" / "kernels" / "plain"
BOUNDED = {
    "warp_texture": "images",
    "histogram_256": "images",
    "rms_norm": "language",
    "gated_early": "language",
    "forward_solve": "numbers",
    "binary_gcd": "numbers",
    "sparse_rows": "numbers",
    "exchange_sort": "ordering",
    "voxel_mean": "perception",
    "suppress_mask": "perception",
    "suppress_reduce": "perception",  # loops with barriers, up to a clamped count
    "decode_attention": "language",  # an unrolled loop in another, up to a clamped length
    "padded_rows": "numbers",  # a pointer to an end at a known distance
    "gather_rows": "plugins",
    "unpack_sizes": "plugins",
    "row_norm": "plugins",
}
WITH_FACTS = {
    "find_edges": "ordering",
    "sparse_warps": "numbers",
    "verify_drafts": "models",  # a loop left from inside of another one for two places
}
WAITING = {"chained_scan": "ordering", "wait_flag": "scenes"}


def refused(kernel: str, file: str, *, facts: bool = False) -> list[str]:
    """The codes with which a kernel is refused in its launch, with or without the facts."""
    request = Request(
        str(FOLDER / f"{file}.ptx"),
        launch_file=str(FOLDER / "launches" / f"{kernel}.toml"),
        facts_file=str(FOLDER / "facts" / f"{kernel}.toml") if facts else None,
        machine=str(FOLDER / "machine.toml"),
    )
    return [one.code for row in bound_file(request).refused for one in row.diagnostics]


@pytest.mark.every(3)
@pytest.mark.parametrize(("kernel", "file"), BOUNDED.items())
def test_bounded_with_a_launch(kernel: str, file: str) -> None:
    assert refused(kernel, file) == []


@pytest.mark.every(2)
@pytest.mark.parametrize(("kernel", "file"), WITH_FACTS.items())
def test_bounded_with_facts_of_the_data_and_refused_without(kernel: str, file: str) -> None:
    assert refused(kernel, file) == ["PW203"]
    assert refused(kernel, file, facts=True) == []


@pytest.mark.thorough
def test_a_range_that_walks_warps_apart_costs_no_bound(tmp_path: Path) -> None:
    """With the range of an array the warps of ragged_attention are walked in different ways."""
    facts = tmp_path / "facts.toml"
    given = (FOLDER / "facts" / "ragged_attention.toml").read_text(encoding="utf-8")
    facts.write_text(f'{given.splitlines()[0]}\n\n[arrays]\nsums = "s32 0..100"\n')
    launch = FOLDER / "launches" / "ragged_attention.toml"
    plain = Request(str(FOLDER / "models.ptx"), launch_file=str(launch))
    bounds = [
        only_answer(request).worst.bound.cycles
        for request in (plain, replace(plain, facts_file=str(facts)))
    ]
    assert bounds[0] == bounds[1]


@pytest.mark.parametrize(("kernel", "file"), WAITING.items())
def test_what_waits_for_other_threads_is_refused(kernel: str, file: str) -> None:
    assert refused(kernel, file) == ["PW203"]


def test_every_kernel_has_a_launch() -> None:
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.ptx")]
    kernels = {name for text in texts for name in re.findall(r"\.entry\s+(\w+)", text)}
    assert {path.stem for path in (FOLDER / "launches").glob("*.toml")} == kernels
    assert {path.stem for path in (FOLDER / "facts").glob("*.toml")} < kernels
