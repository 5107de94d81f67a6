"""A block bound is that of a block alone on its SM: the grid simulator shows why it says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import only_answer
from places import ROOT

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import AssumptionState, Guarantee, TimingClaim
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.bound.text import render_text
from ptxwcet.commands.trace.study import TraceOptions, trace_launch
from ptxwcet.machine.loader import load_machine, machine_names
from ptxwcet.opened.request import Request

KEY = "alone-on-its-sm"
LAUNCH = """\
kernel = "vector_add"
grid = 12
block = 256
[arguments]
a = { shape = [3072], dtype = "float32", init = "zeros" }
b = { shape = [3072], dtype = "float32", init = "zeros" }
c = { shape = [3072], dtype = "float32", init = "zeros" }
n = 3072
"""


@pytest.fixture
def request_of_launch(tmp_path: Path) -> Request:
    path = tmp_path / "vector_add.toml"
    path.write_text(LAUNCH)
    return Request(str(ROOT / "samples/vector_add.ptx"), launch_file=str(path))


def longest_block(request: Request, resident: int, policy: str) -> int:
    """Cycles from the start to the end of the block that takes longest, on one SM."""
    options = TraceOptions(policy, GridWishes(sms=1, resident_blocks=resident))
    (run,) = trace_launch(request, options).runs
    return int((run.blocks.end - run.blocks.start).max())


def claim_of(request: Request) -> TimingClaim:
    row = only_answer(request)
    return row.worst.bound.claim


@pytest.mark.parametrize("policy", ["lrr", "gto", "youngest"])
def test_six_blocks_on_an_sm_exceed_the_bound_of_one_alone(
    request_of_launch: Request, policy: str
) -> None:
    claim = claim_of(request_of_launch)
    assert claim.guarantee is Guarantee.SAFE_BOUND
    assert longest_block(request_of_launch, 1, policy) <= claim.cycles
    assert longest_block(request_of_launch, 6, policy) > claim.cycles
    (said,) = [one for one in claim.assumptions if one.key == KEY]
    assert said.state is AssumptionState.ASSUMED
    assert "from its start to its end" in said.text


@pytest.mark.parametrize("method", ["safe", "gub", "scheduled"])
def test_every_block_bound_says_so(request_of_launch: Request, method: str) -> None:
    request = Request(
        request_of_launch.path,
        launch_file=request_of_launch.launch_file,
        method=method,
        policy="lrr" if method == "scheduled" else None,
    )
    assert KEY in [one.key for one in claim_of(request).assumptions]


@pytest.mark.parametrize("name", machine_names())
def test_no_machine_makes_it_true_by_definition(name: str) -> None:
    assert load_machine(name).assumption(KEY).state is AssumptionState.ASSUMED


def test_the_report_says_so_by_default(request_of_launch: Request) -> None:
    text = render_text(build_report(bound_file(request_of_launch))).text
    assert "cycles for any one block alone on its SM" in text
    assert "the block has its SM to itself from its start to its end" in text
