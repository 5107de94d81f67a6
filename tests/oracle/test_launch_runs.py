"""Whole launches, executed and run as grids, against the bound of the launch."""

from __future__ import annotations

from pathlib import Path

from launch_attack import length, runs_of

from ptxwcet.compose.launch_bound import LaunchBound
from ptxwcet.compose.wishes import GridWishes
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.studies.block_bound import bound_file
from ptxwcet.studies.grid_validation import executed_workload
from ptxwcet.studies.opening import open_request
from ptxwcet.studies.request import Request

UNNAMED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{
.shared .align 4 .b8 tile[40000];
.reg .b32 %r<4>;
.reg .b64 %d<4>;
ld.param.u64 %d1, [data];
ld.global.u32 %r1, [%d1];
ld.global.u32 %r2, [%d1+4];
add.u32 %r3, %r1, %r2;
ret;
}
"""


def test_shared_memory_that_is_not_named_is_there() -> None:
    """ptxas gives the kernel 40000 bytes: an SM holds 4 of its blocks, not 16."""
    said = GridWishes(registers=16)
    request = Request("k.ptx", block="32", grid="64", text=UNNAMED, gpu=said)
    (row,) = bound_file(request).answered
    bound = row.launched
    assert isinstance(bound, LaunchBound)
    import numpy as np

    data = np.zeros(4, np.uint32)
    launch = EmulatedLaunch((32, 1, 1), (64, 1, 1), (data,))
    options = EmulatorOptions(record_paths=True)
    done = execute(row.kernel, open_request(request).module, launch, options=options)
    workload = executed_workload(row, done)
    longest = max(length(row, workload, 1, 4, 0, run) for run in runs_of(0))
    assert longest <= bound.claim.cycles
    (sixteen,) = bound_file(
        Request("k.ptx", block="32", grid="64", text=UNNAMED, gpu=GridWishes(resident_blocks=16))
    ).answered
    assert isinstance(sixteen.launched, LaunchBound)
    assert longest > sixteen.launched.claim.cycles
