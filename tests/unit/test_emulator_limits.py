"""Runs that do not end, and launches that cannot be: one clear diagnostic each, no results."""

import numpy as np
import pytest
from executions import execute_first
from programs import run_program
from refusals import refusals_of

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

ENDLESS = """.version 9.0
.target sm_90
.address_size 64
.entry endless(.param .u64 out)
{
  .reg .b32 %r<3>; .reg .b64 %d; .reg .pred %p;
  ld.param.u64 %d, [out];
  st.global.u32 [%d], 1;
  mov.u32 %r1, 0;
OUTER:
  mov.u32 %r2, 0;
INNER:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p, %r2, 5;
  @%p bra INNER;
  bra OUTER;
}
"""


def run(text, limit, *arguments, block=(32, 1, 1), grid=(1, 1, 1)):
    launch = EmulatedLaunch(block, grid, arguments)
    return execute_first(text, launch, max_instructions=limit)


def test_an_endless_loop_is_named():
    (diagnostic,) = refusals_of(run, ENDLESS, 10_000, np.zeros(1, "i4"))
    assert diagnostic.code == "PW411"
    assert "more than 10,000 warp instructions" in diagnostic.message
    assert "loop at" in diagnostic.message
    assert "INNER" in diagnostic.message or "OUTER" in diagnostic.message


def test_the_limit_is_exact():
    text = ENDLESS.replace("bra OUTER", "ret")
    count = run(text, 10**6, np.zeros(1, "i4")).warp_instructions
    assert run(text, count, np.zeros(1, "i4")).is_complete
    with pytest.raises(PtxwcetError):
        run(text, count - 1, np.zeros(1, "i4"))


def test_a_stopped_run_writes_nothing(tmp_path):
    file, launch = tmp_path / "endless.ptx", tmp_path / "endless.toml"
    file.write_text(ENDLESS)
    array = '{ shape = 1, dtype = "int32", init = "zeros" }'
    launch.write_text(f"grid = 1\nblock = 32\n[arguments]\nout = {array}\n")
    out, paths = tmp_path / "r.npz", tmp_path / "p.jsonl"
    out.write_text("older")
    written = ("-o", str(out), "--paths", str(paths))
    options = ("--launch", launch, "--max-instructions", "5000", *written)
    code, _, errors = run_program("run", file, *options)
    assert code == 1
    assert "PW411" in errors
    assert "--max-instructions" in errors
    assert out.read_text() == "older"
    assert not paths.exists()


@pytest.mark.parametrize(
    ("block", "grid"), [((0, 1, 1), (1, 1, 1)), ((32, 1, 1), (0, 1, 1)), ((1025, 1, 1), (1, 1, 1))]
)
def test_launches_without_threads_or_with_too_many(block, grid):
    assert [
        one.code
        for one in refusals_of(run, ENDLESS, 100, np.zeros(1, "i4"), block=block, grid=grid)
    ] == ["PW414"]


def test_arguments_that_do_not_fit():
    for arguments in ((), (np.zeros(1), 2), (1 << 64,), (2.5,)):
        assert [one.code for one in refusals_of(run, ENDLESS, 100, *arguments)] == ["PW412"]
