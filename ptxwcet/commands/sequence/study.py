"""Sequences of launches: the sum of their bounds, for a frame of an application.

A sequence file is TOML with a table ``[[launch]]`` for each, in order (docs/guide/deadline.md). The
sum is a bound if each launch starts when the previous one has ended, as in one stream; launches of
different streams may overlap, and are refused. Problems are PW550 (the file) and PW551 (streams),
with their places; a launch without a bound has its own diagnostics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.launch_bound import METHOD, LaunchBound
from ptxwcet.claims import Assumption, AssumptionState, Guarantee, Refusal, TimingClaim
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.opened.launch_tables import (
    LINK,
    MACHINE_CODE,
    MAKING,
    keys_of,
    launch_request,
    value_problem,
)
from ptxwcet.opened.opening import RefusedKernel
from ptxwcet.opened.plan_reading import is_made, made_text
from ptxwcet.opened.request import Request, needs_tool
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, UsageError
from ptxwcet.support.input_files import MOST_TOML_BYTES, read_text
from ptxwcet.support.options import is_text, whole
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile
from ptxwcet.support.toml_places import NotToml, locate_key, locate_table, nearest, parse_toml

IN_ORDER = Assumption(
    "launches-in-order",
    "each launch starts when the one before it has ended, and nothing else runs between them",
    AssumptionState.ASSUMED,
    "one stream",
)
"""The assumption of a sum of launches."""

_NOT_EARLY = (
    "none of these kernels, which tell the launch after that it may start or wait for the one "
    "before (griddepcontrol), is launched before that one has ended: {}"
)

_TIMES = whole(1, 10**12)
_MOST_LAUNCHES = 10_000
_TEXTS = ("file", "kernel", "stream")
_DEFAULTS = keys_of("launch", at_top=True)
"""Keys that a sequence has for all its launches."""
_KNOWN = (*_TEXTS, "times", *keys_of("launch"))


@dataclass(frozen=True, slots=True)
class BoundedLaunch:
    """A launch of a sequence, ``times`` in a row; ``bound`` is for one."""

    path: str
    row: KernelAnalysis
    bound: LaunchBound
    times: int


@dataclass(frozen=True, slots=True)
class SequenceBound:
    """The launches of a sequence, in order, and the claim of their sum."""

    path: str
    machine: Machine
    launches: tuple[BoundedLaunch, ...]
    claim: TimingClaim


def bound_sequence(
    path: str,
    machine: str = DEFAULT_MACHINE,
    memory_latency_cycles: int | None = None,
    sms: int | None = None,
) -> SequenceBound:
    """Bounds all launches of a sequence file together.

    Raises PtxwcetError: PW550, PW551, PW120 (not compiled), and every reason why a launch has no
    bound. Cost: each different launch once, however often it is repeated.
    """
    loaded = load_machine(machine, memory_latency_cycles)
    file = _read(path)
    reader = _Reader(file, machine, memory_latency_cycles, sms)
    bounds: dict[Request, BoundedLaunch] = {}
    launches = []
    problems: list[Diagnostic] = []
    try:
        asked = reader.launches()
    except PtxwcetError as error:
        raise UsageError(error.diagnostics) from None
    for number, (request, times) in enumerate(asked):
        try:
            if request not in bounds:
                bounds[request] = _bounded(request, times, reader, number)
            bound = bounds[request]
            launches.append(BoundedLaunch(bound.path, bound.row, bound.bound, times))
        except PtxwcetError as error:
            problems += error.diagnostics
    if problems:
        raise PtxwcetError(dict.fromkeys(problems))
    return SequenceBound(path, loaded, tuple(launches), _sum(launches))


def _sum(launches: list[BoundedLaunch]) -> TimingClaim:
    claims = [launch.bound.claim for launch in launches]
    assumptions = dict.fromkeys(each for claim in claims for each in claim.assumptions)
    if len(launches) > 1 or launches[0].times > 1:
        assumptions[IN_ORDER] = None
        told = [launch.row.kernel for launch in launches if _orders_launches(launch.row.kernel)]
        if told:
            text = _NOT_EARLY.format(", ".join(dict.fromkeys(one.readable for one in told)))
            state = AssumptionState.ASSUMED
            assumptions[Assumption("no-programmatic-launch", text, state, "one stream")] = None
    return TimingClaim(
        sum(launch.times * launch.bound.claim.cycles for launch in launches),
        Guarantee.weakest(claim.guarantee for claim in claims),
        METHOD,
        tuple(assumptions),
        claims[0].citations,
    )


def _orders_launches(kernel: Kernel) -> bool:
    return any(one.mnemonic.startswith("griddepcontrol.") for one in kernel.instructions)


def _bounded(request: Request, times: int, reader: _Reader, number: int) -> BoundedLaunch:
    """Returns the bound of a launch. Raises PtxwcetError."""
    answer = bound_file(request)
    if len(answer.kernels) != 1:
        names = ", ".join(row.kernel.readable for row in answer.kernels)
        reader.fail(number, "kernel", f"{request.path} has {len(answer.kernels)} kernels: {names}")
    (bounded,) = answer.kernels
    if isinstance(bounded, RefusedKernel):
        raise PtxwcetError(bounded.diagnostics)
    if bounded.launch_bound is None:
        reader.fail(number, "grid", f"the grid of kernel {bounded.kernel.readable} is not known")
    if isinstance(bounded.launch_bound, Refusal):
        why = bounded.launch_bound.reason
        reader.fail(number, "file", f"kernel {bounded.kernel.readable} is not bounded: {why}")
    return BoundedLaunch(request.path, bounded, bounded.launch_bound, times)


def _read(path: str) -> SourceFile:
    try:
        return SourceFile(path, read_text(path, MOST_TOML_BYTES))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        message = f"cannot read sequence file '{path}': {reason}"
        raise PtxwcetError.of("PW550", message) from None


class _Reader:
    """The launches of a file as requests; paths in it are relative to it."""

    def __init__(
        self, file: SourceFile, machine: str, memory_latency: int | None, sms: int | None
    ) -> None:
        self._file = file
        self._machine, self._memory_latency, self._sms = machine, memory_latency, sms
        self._folder = Path(file.name).parent
        self._texts: dict[tuple[object, ...], str] = {}

    def launches(self) -> list[tuple[Request, int]]:
        """Returns each launch and its repetitions in a row. Raises PtxwcetError (PW550, PW551)."""
        try:
            data = parse_toml(self._file)
        except NotToml as problem:
            message = f"not TOML: {problem.message}"
            raise PtxwcetError.of("PW550", message, problem.span) from None
        tables, keys = data.pop("launch", None), ("launch", *_DEFAULTS)
        for key, value in data.items():
            wrong = value_problem(key, value) if key in _DEFAULTS else f"unknown key {key}"
            if wrong is not None:
                span = locate_key(self._file, "", key) or locate_table(self._file, key)
                remedy = f"{nearest(key, keys)}known: {', '.join(keys)}"
                raise PtxwcetError.of("PW550", wrong, span, help=remedy)
        if not isinstance(tables, list) or not 1 <= len(tables) <= _MOST_LAUNCHES:
            message = f"{self._file.name} has no list of launches, or more than {_MOST_LAUNCHES:,}"
            raise PtxwcetError.of("PW550", message, help="write a table [[launch]] for each launch")
        self._require_one_stream(tables)
        return [self._launch(number, row, data) for number, row in enumerate(tables)]

    def fail(self, number: int, key: str, message: str) -> NoReturn:
        """Raises PtxwcetError (PW550) for a launch, at one of its keys if it has it."""
        span = locate_key(self._file, "launch", key, number)
        span = span or locate_table(self._file, "launch", number)
        where = f"launch {number + 1}"
        raise PtxwcetError.of(
            "PW550",
            f"{where}: {message}",
            span,
            help='for example file = "kernel.ptx", kernel = "scale", block = "256", '
            'grid = "64", params = { n = 16384 }; or launch = "launch.toml"',
        )

    def _require_one_stream(self, tables: list[Any]) -> None:
        streams = dict.fromkeys(
            str(table.get("stream", "")) for table in tables if isinstance(table, Mapping)
        )
        if len(streams) > 1:
            number = next(
                n
                for n, row in enumerate(tables)
                if str(row.get("stream", "")) != next(iter(streams))
            )
            raise PtxwcetError.of(
                "PW551",
                f"launches of {len(streams)} streams may overlap: their bounds do not add up",
                locate_key(self._file, "launch", "stream", number)
                or locate_table(self._file, "launch", number),
                help="bound a sequence of one stream that has the GPU to itself",
            )

    def _launch(
        self, number: int, table: object, defaults: Mapping[str, Any]
    ) -> tuple[Request, int]:
        if not isinstance(table, Mapping):
            self.fail(number, "file", "a launch is a table")
        for key, value in table.items():
            self._check(number, key, value)
        if "file" not in table:
            self.fail(number, "file", "file is missing: the PTX of its kernel")
        request = launch_request(
            self._made(number, table, {**defaults, **table}),
            table,
            str(self._folder),
            kernel=table.get("kernel"),
            machine=self._machine,
            memory_latency=self._memory_latency,
            sms=self._sms,
        )
        return request, table.get("times", 1)

    def _made(self, number: int, table: Mapping[str, Any], whole: Mapping[str, Any]) -> Request:
        """Returns the file of a launch, compiled if necessary, once for equal requests.

        ``whole`` is its table with the keys that the sequence states for all.
        """
        path = str(self._folder / table["file"])
        arch, options, is_code = (whole.get(key) for key in (*MAKING, MACHINE_CODE))
        if not needs_tool(path):
            for key in MAKING[bool(is_code) :]:
                if key in table:
                    self.fail(number, key, f"{key} is for CUDA source: PTX is compiled already")
        if not is_made(path, is_code=bool(is_code)):
            return Request(path)
        kernels = (table["kernel"],) if "kernel" in table else ()
        making = (arch, options or "", bool(is_code))
        asked = (path, *making, kernels, is_linked := LINK in table)
        try:
            if asked not in self._texts:
                self._texts[asked] = made_text(path, making, kernels, is_linked=is_linked)
        except PtxwcetError as error:
            span = locate_key(self._file, "launch", "file", number)
            whose = f"launch {number + 1}: "
            raise PtxwcetError(
                replace(one, message=whose + one.message, span=span) for one in error.diagnostics
            ) from None
        return Request(path, text=self._texts[asked], is_code=bool(is_code))

    def _check(self, number: int, key: str, value: object) -> None:
        """Raises PtxwcetError (PW550) for a key that is not known, or has a wrong value."""
        if key not in _KNOWN:
            listed = f"{nearest(key, _KNOWN)}known: {', '.join(_KNOWN)}"
            self.fail(number, key, f"unknown key {key}; {listed}")
        if key in _TEXTS and not is_text(value):
            self.fail(number, key, f"{key} is a text")
        problem = value_problem(key, value)
        if key == "times" and not _TIMES.is_value(value):
            problem = f"{key} is {_TIMES.held}"
        if problem is not None:
            self.fail(number, key, problem)
