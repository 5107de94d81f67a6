"""Timings of machine files beside those that the vendor's compiler leaves (``vendor.toml``).

PW328 is an op class that is charged less: an error in a file that says that its timings are upper.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.checks import locate
from ptxwcet.machine.loader import load_machine, read_machine_file
from ptxwcet.machine.model import OpTiming, TimingMeaning
from ptxwcet.support.diagnostics import Diagnostic, Severity

_TABLE = Path(__file__).with_name("vendor.toml")


@cache
def vendor_cycles() -> Mapping[str, Mapping[OpClass, int]]:
    """Compute capability -> op class -> cycles from issue to the issue of the slowest reader.

    What has no fixed number of cycles is left out.
    """
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    return {
        column: {OpClass(name): row[at] for name, row in table["cycles"].items() if row[at]}
        for at, column in enumerate(table["columns"])
    }


def charged_less(name_or_path: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """What a machine's timings were compared with, and a PW328 for each that is charged less.

    Raises PtxwcetError (PW3xx) for a file that is none.
    """
    machine = load_machine(name_or_path)
    capability = machine.compute_capability
    known = vendor_cycles()
    if capability is None:
        return "no compute_capability: not compared with the vendor's compiler", ()
    if capability not in known:
        return f"compute capability {capability} is not in the vendor's table: not compared", ()
    file, _ = read_machine_file(name_or_path)
    claims_upper = machine.timing_meaning is TimingMeaning.UPPER
    problems = []
    for op_class, least in known[capability].items():
        row = machine.timings[op_class]
        if not isinstance(row, OpTiming):
            continue
        charged = row.initiation_cycles + row.latency_cycles
        if charged < least:
            problems.append(
                Diagnostic(
                    "PW328",
                    f"op class {op_class.value} is charged {charged} cycles, and the vendor's "
                    f"compiler leaves {least} before the slowest reader",
                    locate(file, "ops", op_class.value),
                    help="charge as much, and name the readers that wait for less (readers)",
                    severity=Severity.ERROR if claims_upper else Severity.NOTE,
                )
            )
    less = len(problems) or "none"
    compared = f"{less} charged less than the vendor's compiler leaves"
    return f"{compared} (compute capability {capability})", tuple(problems)
