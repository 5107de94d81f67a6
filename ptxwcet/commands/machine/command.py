"""``ptxwcet machine``: shows machine files and their numbers' sources, and makes new ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command, CommandGroup
from ptxwcet.cli.output import echo, echo_json, finish
from ptxwcet.cli.paths import MACHINE, InputFile, OutputFolder
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine, machine_names
from ptxwcet.machine.microbenchmarks import microbenchmark_files
from ptxwcet.machine.model import (
    Machine,
    OpTiming,
    Reader,
    RefusedOp,
    TimingMeaning,
)
from ptxwcet.machine.new_file import new_machine
from ptxwcet.machine.results import charged_less, read_results, results_template
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.whole_files import write_text


@click.command(cls=CommandGroup, example="ptxwcet machine orin-ecrts2025")
@click.argument("name", type=MACHINE, required=False)
@options.of("memory_latency")
@options.report_options
def machine(name: str | None, memory_latency: int | None, form: str) -> None:
    """List the machines that come with the tool, or show machine NAME (or a file).

    Shown are units, timings with evidence and source, and assumptions.
    """
    if name is None:
        options.refuse_idle("is of one machine: name it", "memory_latency")
        _list_machines(form)
        return
    shown = load_machine(name, memory_latency)
    if form == "json":
        echo_json(shown)
        return
    echo(f"{shown.name}: {shown.description}")
    for label, value in _facts(shown):
        echo(f"  {label:<28} {value}")
    echo("\nunits")
    _print_table(
        ("unit", "count", "makespan"),
        [
            (unit.name, str(unit.count), shown.makespan_letters.get(unit.name, "-"))
            for unit in shown.units
        ],
    )
    echo("\ntimings (cycles; a result is ready init + lat after dispatch)")
    timed, refused = _timing_rows(shown)
    _print_table(("op class", "unit", "init", "lat", "evidence", "source"), timed)
    sooner = list(_sooner(shown))
    if sooner:
        echo("\nlatencies to readers that wait for less than lat")
        _print_table(("op class", *(reader.value for reader in Reader)), sooner)
    faster = list(_forms(shown))
    if faster:
        echo("\ninstructions that take less than the slowest of their op class")
        _print_table(("instruction", "op class", "init", "lat"), faster)
    if refused:
        echo("\nrefused")
        _print_table(("op class", "reason"), refused)
    for title, rules in (
        ("occupancy", shown.occupancy),
        ("dispatch", shown.dispatch),
        ("of what the compiler makes several instructions", shown.expansion),
        ("memory", shown.memory),
        ("carve-out of the L2 cache", shown.carve_out),
        ("L1 cache", shown.l1_cache),
        ("L2 cache", shown.l2_cache),
    ):
        if rules is not None:
            echo(f"\n{title}")
            _print_table(("figure", "value", "evidence", "source"), list(_figures(rules)))
    echo("\nassumptions")
    _print_table(
        ("assumption", "state", "meaning", "source"),
        [(a.key, a.state.value, a.text, a.source) for a in shown.satisfies],
    )


def _list_machines(form: str) -> None:
    texts = {name: load_machine(name).description for name in machine_names()}
    if form == "json":
        echo_json([{"machine": name, "description": text} for name, text in texts.items()])
        return
    marks = {DEFAULT_MACHINE: " (default)"}
    rows = [(name + marks.get(name, ""), text) for name, text in texts.items()]
    _print_table(("machine", "description"), rows)


@click.command("check", cls=Command, example="ptxwcet machine check my-gpu.toml")
@click.argument("path", type=MACHINE)
def machine_check(path: str) -> int:
    """Check machine file PATH (or a known machine): every problem, or what was found.

    Timings are compared with those that the vendor's compiler leaves for its compute capability.
    """
    checked = load_machine(path)
    timed = sum(isinstance(row, OpTiming) for row in checked.timings.values())
    refused = len(checked.timings) - timed
    compared, problems = charged_less(path)
    echo(f"{path}: machine {checked.name}: {timed} op classes timed, {refused} refused")
    echo(f"{path}: {compared}")
    code = finish(problems)
    return code if checked.timing_meaning is TimingMeaning.UPPER else 0


@click.command("new", cls=Command, example="ptxwcet machine new other-gpu titan-v")
@click.argument("name")
@click.argument("base", type=MACHINE, metavar="MODEL")
@click.argument("measured", type=InputFile(), metavar="[RESULTS]", required=False)
@options.option("output", "Write the machine file here.  [default: NAME.toml]")
def machine_new(name: str, base: str, measured: str | None, output: Path | None) -> int:
    """Write a machine file for NAME: the figures measured, and those of MODEL, marked as copied.

    MODEL is a machine or machine file, RESULTS those of microbenchmarks, as CSV (ptxwcet machine
    microbenchmarks). Every assumption is doubtful in the new file, so that bounds are estimates
    (docs/tutorials/machine.md).
    """
    written = new_machine(name, base, read_results(measured) if measured else None)
    path = output or Path(f"{name}.toml")
    if path.is_file():
        message = f"'{path}' is there: a machine file is not overwritten"
        raise PtxwcetError(Diagnostic("PW322", message, help="remove it, or give another -o"))
    write_text(path, written.text, "PW233")
    echo(f"{path}: {written.measured} figures measured, {written.copied} copied from {base}")
    finish(written.warnings)
    return 0


@click.command("measure", cls=Command, example="ptxwcet machine measure -o results.csv")
@options.option("output", "Write the results here.", required=True)
def machine_measure(output: Path) -> int:
    """Run the microbenchmarks on the first GPU and write their results (needs ptxwcet[gpu])."""
    # imported here: only this command needs numpy and GPU bindings
    from ptxwcet.commands.machine.study import measure_on_gpu

    text = measure_on_gpu()
    write_text(output, text, "PW233")
    echo(f"{output}: {text.count(chr(10)) - 1} results")
    return 0


@click.command("microbenchmarks", cls=Command, example="ptxwcet machine microbenchmarks -o bench")
@options.option(
    "output",
    "Write them into this folder; a results.csv that is there stays.",
    required=True,
    type=OutputFolder(".ptx", ".toml", ".md"),
)
def machine_microbenchmarks(output: Path) -> int:
    """Write microbenchmarks in PTX, how to run them, and results.csv to enter what they give."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder '{output}': {error.strerror or error}"
        raise PtxwcetError(Diagnostic("PW233", message)) from None
    files = microbenchmark_files()
    for file, text in files.items():
        write_text(output / file, text, "PW233")
    if not (output / "results.csv").exists():
        write_text(output / "results.csv", results_template(), "PW233")
    kernels = sum(file.endswith(".ptx") for file in files)
    echo(f"{output}: {kernels} microbenchmarks, README.md, launch.toml, results.csv")
    return 0


def _facts(shown: Machine) -> Iterable[tuple[str, str]]:
    limits = shown.limits
    yield "schema", str(shown.schema)
    if shown.compute_capability is not None:
        yield "compute capability", shown.compute_capability
    yield "timings", shown.timing_meaning.value
    yield "schedulers per SM", str(shown.schedulers_per_sm)
    yield "scoreboard", shown.scoreboard.value
    yield "ret and exit are issued", "yes" if shown.issues_return else "no"
    yield "taken-branch bubble", f"{shown.taken_branch_bubble_cycles} cycles"
    yield "global-memory latency", f"{shown.memory_latency_cycles} cycles"
    yield "clock", f"{shown.clock_mhz} MHz"
    yield "threads per block / SM", f"{limits.threads_per_block} / {limits.threads_per_sm}"
    yield "blocks per SM", str(limits.blocks_per_sm)
    yield "registers per SM", str(limits.registers_per_sm)
    yield (
        "shared memory per block / SM",
        f"{limits.shared_bytes_per_block} / {limits.shared_bytes_per_sm} bytes",
    )


def _figures(rules: Any) -> Iterable[tuple[str, str, str, str]]:
    """Yields the rows of a table of figures of a machine."""
    for field in fields(rules):
        figure = getattr(rules, field.name)
        if figure is not None:
            yield field.name, str(figure.value), figure.evidence.value, figure.source


def _timing_rows(shown: Machine) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    timed: list[Sequence[str]] = []
    refused: list[Sequence[str]] = []
    for op_class, row in shown.timings.items():
        match row:
            case OpTiming(unit, initiation, latency, evidence, source):
                cells = (unit, str(initiation), str(latency), evidence.value, source)
                timed.append((op_class.value, *cells))
            case RefusedOp(reason):
                refused.append((op_class.value, reason))
    return timed, refused


def _sooner(shown: Machine) -> Iterable[Sequence[str]]:
    for op_class, row in shown.timings.items():
        if isinstance(row, OpTiming) and row.readers:
            known = dict(row.readers)
            yield op_class.value, *(str(known.get(reader, "-")) for reader in Reader)


def _forms(shown: Machine) -> Iterable[Sequence[str]]:
    for op_class, row in shown.timings.items():
        if isinstance(row, OpTiming):
            for form, (initiation, latency) in row.forms:
                yield form, op_class.value, str(initiation), str(latency)


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]
    for row in (header, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        echo("  " + "  ".join(cells).rstrip())
