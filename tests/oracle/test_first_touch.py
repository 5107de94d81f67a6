"""Arrays set aside in a cache (docs/methods/first-touch.md): a small part of the attack."""

from __future__ import annotations

from collections import defaultdict

import pytest
from grid_attack import Family
from grid_machine import Grid, Op
from places import SAMPLES
from server_attack import ATTACKED, CROWDED, Kept, attack_kept, claimed_kept, longest
from server_machine import Served, ServedGrid

from ptxwcet.commands.run.study import emulated, read_launch
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatorOptions, ObservedAccess
from ptxwcet.emulator.layout import Layout
from ptxwcet.emulator.memory import BASE
from ptxwcet.flow.launch import Launch
from ptxwcet.memory.analysis import accesses_kept
from ptxwcet.opened.request import Request
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source

LATENCY = 60


@pytest.mark.parametrize("family", [*ATTACKED, CROWDED], ids=[f.name for f in (*ATTACKED, CROWDED)])
def test_launches(family: Family) -> None:
    tally = attack_kept(family, range(8 if family is CROWDED else 25), 15)
    assert tally.witnesses == []
    if family is CROWDED:
        assert tally.broken["cache dropped"] > 0
        assert tally.broken["nothing is kept"] > 0


def touch(unit: int, latency: int, *reads: int) -> Served:
    return Served(0, 1, latency, reads, cache=1, memory=1, unit_kept=unit, fetch=1)


@pytest.mark.parametrize("false", [0, 1])
def test_joined_misses_must_not_lose_more(false: int) -> None:
    """w0 asks for the unit late, loses little before the cache and all behind it; w1 asked at once,
    but loses nearly all before the cache, and waits there for what w0 has fetched.
    """
    late = (Op(0, 1, LATENCY * 3 // 4), touch(0, LATENCY, 0))
    early = (touch(0, LATENCY), Op(0, 1, LATENCY, (0,)))
    grid = Grid(((late, early),), (1,), cores=1)
    kept = Kept(ServedGrid(grid, kept=1, false=false), 1, 1)
    found = max(longest(kept.served, seed, 400) for seed in range(10))
    assert (found > claimed_kept(kept)) == bool(false)


@pytest.mark.parametrize(
    ("name", "launch_file", "kept"),
    [
        ("sgemm_naive", "sgemm_naive", 3),
        ("sgemm_double_buffered", "sgemm_double_buffered", 3),
        ("transpose_tiled", "transpose_tiled", 2),
        ("saxpy", "saxpy", 2),
        ("vector_add", "vector_add", 3),
        ("stencil_2d", "stencil_2d", 2),
        ("convolution", "convolution", 2),
        ("scan", "scan", 2),
        ("bitonic_sort", "bitonic_sort", 1),
        ("histogram", "histogram", 1),
        ("triton_add", "triton_add", 3),
    ],
)
def test_executed_accesses_lie_in_the_array_they_lead_to(
    name: str, launch_file: str, kept: int
) -> None:
    """Of each array alone the size is stated: what is said to be of it touches nothing else."""
    ptx = SAMPLES / f"{name}.ptx"
    module = parse_module(read_source(str(ptx)))
    read = read_launch(str(SAMPLES / f"launches/{launch_file}.toml"), module, Request(str(ptx)))
    kernel, launch = read.kernel, emulated(read)
    touched: dict[int, set[int]] = defaultdict(set)

    def observe(access: ObservedAccess) -> None:
        if access.space == "global":
            for _, address in access.addresses:
                touched[access.instruction] |= {address, address + access.size - 1}

    options = EmulatorOptions(checks=frozenset(), observer=observe)
    assert execute(kernel, module, launch, options=options).is_complete
    found = 0
    buffers = Layout(kernel, module, launch).buffers
    for parameter, buffer in zip(kernel.parameters, buffers, strict=True):
        if buffer is None:
            continue
        start, array = buffer
        said = Launch((32, 1, 1), sizes={parameter.name: array.nbytes})
        accesses = accesses_kept(kernel, said)
        places = set().union(*(touched[index] for index in accesses))
        assert all(0 <= place - BASE - start < array.nbytes for place in places)
        found += bool(places)
    assert found == kept
