"""The checker of the makespan's machine: what it lets pass, and each rule that it enforces."""

from __future__ import annotations

import pytest

from ptxwcet.machine.loader import load_machine, machine_names
from ptxwcet.methods.makespan.schedule import Schedule, ScheduleError, Slot, check_schedule

pytestmark = pytest.mark.fast

A_RUN = (Slot((0,), ()), Slot((1,), (0,)), Slot((), (1,)))
"""Two warps of LC, one a slot."""


def check(slots: tuple[Slot, ...], string: str = "LC", load_store: int = 1, cores: int = 1) -> int:
    return check_schedule(Schedule(slots), string, 2, load_store, cores)


def test_a_legal_run() -> None:
    assert check(A_RUN) == 3
    assert check((Slot((0, 1), ()), Slot((), (1, 0))), load_store=2, cores=2) == 2


@pytest.mark.parametrize(
    ("slots", "capacity", "message"),
    [
        ((Slot((0, 1), ()),), 1, "slot 1 serves 2 warps on L, not 1"),
        ((*A_RUN[:2], Slot((), (1, 1))), 1, "slot 3 serves 2 warps on C, not 1"),
        ((Slot((0, 0), ()),), 2, "slot 1 serves a warp twice on L"),
        ((Slot((0,), (1,)),), 1, "slot 1 serves warp 1 on C: it does not wait"),
        ((A_RUN[0], Slot((0,), ())), 1, "slot 2 serves warp 0 on L: it does not wait"),
        ((Slot((0,), ()),), 2, "slot 1 leaves L idle though a warp waits for it"),
        ((A_RUN[0], Slot((1,), ())), 1, "slot 2 leaves C idle though a warp waits for it"),
        (A_RUN[:2], 1, "1 warps have not ended after the last slot"),
        ((*A_RUN, Slot((), ())), 1, "slot 4 comes after all warps have ended"),
    ],
)
def test_illegal_runs(slots: tuple[Slot, ...], capacity: int, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check(slots, load_store=capacity)


def test_every_machine_says_what_its_memory_units_are() -> None:
    for name in machine_names():
        machine = load_machine(name)
        units = {unit.name for unit in machine.units}
        assert set(machine.makespan_letters) <= units
        assert {unit for unit, letter in machine.makespan_letters.items() if letter == "L"} == (
            units & {"MEM", "GMEM", "LSU"}
        )
        assert {unit for unit, letter in machine.makespan_letters.items() if letter == "C"} == {
            "SP",
            "INT",
        }
