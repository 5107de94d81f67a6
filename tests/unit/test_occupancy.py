"""Resident blocks against the CUDA toolkit's own calculation, and waves against the paper's."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DATA

from ptxwcet.bounds.occupancy import (
    BlockResources,
    Occupancy,
    WaveSchedule,
    compute_occupancy,
    schedule_waves,
)
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

TABLE = DATA / "occupancy" / "cuda-13.0.csv"
ORIN = load_machine("orin-ecrts2025")


def opted_in(machine: Machine, shared_bytes_per_sm: int) -> Machine:
    """The machine whose host lets a block have all but what is reserved: so the toolkit counts."""
    most = shared_bytes_per_sm - 1024
    limits = replace(
        machine.limits,
        shared_bytes_per_sm=shared_bytes_per_sm,
        shared_bytes_per_block=most,
    )
    return replace(machine, limits=limits)


MACHINES = {
    "8.0": opted_in(load_machine("ampere-realistic"), 167936),
    "8.6": opted_in(ORIN, 102400),
    "8.7": opted_in(ORIN, 167936),
}


def rows() -> list[dict[str, str]]:
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def limits_of(resources: BlockResources, machine: Machine) -> list[int]:
    """Blocks by each resource; those of a launch that does not fit too."""
    try:
        found = compute_occupancy(resources, machine)
    except PtxwcetError as error:
        (problem,) = error.diagnostics
        assert problem.code == "PW316"
        return []
    return [0 if row.blocks is None else row.blocks for row in found.limits]


def test_the_toolkit_gives_the_same_blocks() -> None:
    table = rows()
    assert len(table) == 300
    fitting = 0
    for row in table:
        numbers = (int(row[key]) for key in ("threads", "shared", "registers"))
        resources = BlockResources(*numbers, "test")
        names = ("by_blocks", "by_warps", "by_registers", "by_shared")
        expected = [int(row[name]) for name in names]
        found = limits_of(resources, MACHINES[row["capability"]])
        assert found == (expected if int(row["resident"]) else []), row
        fitting += bool(found) and min(found) == int(row["resident"])
    assert fitting == sum(int(row["resident"]) > 0 for row in table) > 200
    # without that a block has 48 KiB
    usual = 49_152
    assert limits_of(BlockResources(96, usual, 32, "test"), ORIN)
    assert not limits_of(BlockResources(96, usual + 1, 32, "test"), ORIN)


def test_registers_of_gpgpusim_are_rounded_to_four_and_not_divided() -> None:
    machine = load_machine("rtx3070-gpgpusim")
    found = compute_occupancy(BlockResources(192, 1000, 33), machine)
    assert [row.blocks for row in found.limits] == [32, 8, 65536 // (192 * 36), 102]
    assert found.limited_by == ("warps",)


def test_without_registers_they_do_not_limit_and_the_ledger_says_so() -> None:
    found = compute_occupancy(BlockResources(256, 0), ORIN)
    assert (found.resident_blocks, found.resident_warps) == (6, 48)
    assert found.limited_by == ("warps",)
    assert [row.blocks for row in found.limits if row.resource == "registers"] == [None]
    (assumption,) = found.assumptions
    assert "registers do not limit" in assumption.text
    given = compute_occupancy(BlockResources(256, 0, 64, "--registers"), ORIN)
    assert given.resident_blocks == 4
    assert given.limited_by == ("registers",)
    assert given.assumptions[0].source == "--registers"


@pytest.mark.parametrize(
    ("resources", "short"),
    [
        (BlockResources(2048, 0), "warps, threads"),
        (BlockResources(1056, 0), "threads"),
        (BlockResources(1024, 0, 65), "registers"),
        (BlockResources(32, 0, 256), "registers"),
        (BlockResources(32, 167_000), "shared memory"),
    ],
)
def test_blocks_that_do_not_fit(resources: BlockResources, short: str) -> None:
    with pytest.raises(PtxwcetError, match=f"cannot hold one block of this launch: {short}") as why:
        compute_occupancy(resources, ORIN)
    assert why.value.diagnostics[0].code == "PW316"


def test_a_machine_without_rules_refuses() -> None:
    with pytest.raises(PtxwcetError, match="does not say how many blocks") as caught:
        compute_occupancy(BlockResources(32, 0), replace(ORIN, occupancy=None))
    assert caught.value.diagnostics[0].code == "PW315"


def test_waves_of_matrix_transpose_in_the_paper() -> None:
    """[B] VI-D: 1024 blocks of 256 threads, 8 on each of 14 multiprocessors: 10 waves."""
    waves = schedule_waves(1024, 14, Occupancy(8, 8, ()))
    assert waves == WaveSchedule(1024, 14, 8, 8)
    assert (waves.waves, waves.warps_per_wave) == (10, 64)


@given(st.integers(1, 5000), st.integers(1, 60), st.integers(1, 33), st.integers(1, 32))
def test_waves_are_rounds_of_even_dealing(blocks: int, sms: int, resident: int, warps: int) -> None:
    waves = WaveSchedule(blocks, sms, resident, warps)
    left = [blocks // sms + (sm < blocks % sms) for sm in range(sms)]  # dealt out evenly
    rounds = most = 0
    while any(left):
        rounds += 1
        most = max(most, *(min(resident, mine) for mine in left), 0)
        left = [max(0, mine - resident) for mine in left]
    assert waves.waves == rounds
    assert waves.blocks_per_wave == most
    assert waves.warps_per_wave == most * warps
