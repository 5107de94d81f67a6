"""Machines other than the usual one, on which kernels are bounded and run as well."""

from __future__ import annotations

from dataclasses import replace

from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import Machine, OpTiming


def other_machine(machine: Machine, number: int) -> Machine:
    """The machine with other returns and barriers: of every six numbers, three are as it is."""
    changes = {
        3: (OpClass.RETURN, 1, 300),
        4: (OpClass.RETURN, 60, 60),
        5: (OpClass.BARRIER, 9, 90),
    }
    if number % 6 not in changes:
        return machine
    kind, initiation, latency = changes[number % 6]
    row = machine.timings[kind]
    assert isinstance(row, OpTiming)
    slow = replace(row, initiation_cycles=initiation, latency_cycles=latency)
    return replace(machine, timings={**machine.timings, kind: slow})
