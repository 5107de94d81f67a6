"""Changes between two results: of the main command, or of a plan of checks. Schema number 1."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, Literal, TypeVar

from ptxwcet.claims import Guarantee
from ptxwcet.cli.paths import STANDARD_INPUT, split_kernel
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.report import (
    AssumptionRow,
    BoundedKernel,
    Explanation,
    PaidRow,
    Report,
    paid_parts,
)
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.check.report import CheckReport
from ptxwcet.opened.request import Request
from ptxwcet.report.columns import NOTEBOOK, TEXT, shown
from ptxwcet.report.head import Refused, ReportHead, refusals, report_head
from ptxwcet.report.reading import NotAReport, read_as
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_DATA_BYTES, open_input, read_text
from ptxwcet.support.records import dataclass
from ptxwcet.support.seals import Changed

_MOST_TEXT = 60


@dataclass(frozen=True, slots=True)
class Change:
    """A number or word that differs in two results; None in the one that does not have it."""

    what: str = field(metadata=shown("what", only=NOTEBOOK) | shown("part", at=1, only=TEXT))
    old: int | str | None = field(metadata=shown("old", none="none", is_right=True))
    new: int | str | None = field(metadata=shown("new", none="none", is_right=True))
    growth_percent: float | None = field(
        default=None,
        metadata=shown(
            "difference", lambda row: f"{difference_of(row):+,}", is_right=True, only=TEXT
        )
        | shown("growth, %", only=NOTEBOOK),
    )


@dataclass(frozen=True, slots=True)
class LineChange:
    """A source line that pays more or less of a block's bound, matched by text or else by place.

    Places and cycles are None where the line is in one of the two only.
    """

    old_place: str | None = field(
        metadata=shown("line", lambda row: row.name, at=1, only=TEXT)
        | shown("line", lambda row: row.text or row.new_place or row.old_place, only=NOTEBOOK)
    )
    new_place: str | None
    text: str | None
    old: int | None = field(metadata=shown("old", none="none"))
    new: int | None = field(
        metadata=shown("new", none="none")
        | shown("difference", lambda row: f"{difference_of(row):+,}", is_right=True, only=TEXT)
    )

    @property
    def name(self) -> str:
        """The place of a line, both places if it moved, and its text."""
        places = dict.fromkeys(filter(None, (self.old_place, self.new_place)))
        text = " ".join((self.text or "").split())
        if len(text) > _MOST_TEXT:
            text = text[: _MOST_TEXT - 3] + "..."
        return f"{' -> '.join(places)}  {text}".rstrip()


@dataclass(frozen=True, slots=True)
class Payment:
    """What pays the difference of two bounds of a block that are both explained, in cycles.

    ``parts`` say whether warps issue, wait or stand back (docs/reading-a-bound.md),
    ``op_classes`` for which instructions, ``lines`` for which line; the differences of
    each add up to ``difference``. Only what differs is there, the largest differences first.
    """

    difference: int
    parts: tuple[Change, ...]
    op_classes: tuple[Change, ...]
    lines: tuple[LineChange, ...]


@dataclass(frozen=True, slots=True)
class KernelChange:
    """What changed of a kernel. ``status`` is ``new`` or ``gone`` if only one result has it.

    ``about`` has changes of launch, machine, guarantee and refusals; ``bounds`` those of block,
    launch and each method, in cycles; ``loops`` body executions an entry and who says so, by block;
    ``assumptions`` states, by key; ``lines`` initiation cycles of the costliest lines. ``worse``
    says why this kernel fails the comparison; empty if it does not. ``launch_parts`` are cycles of
    the parts of the launch's bound; ``paid`` is None unless both results are explained.
    """

    kernel: str
    file: str
    machine: str
    launch: str
    status: Literal["changed", "same", "new", "gone"]
    about: tuple[Change, ...] = ()
    bounds: tuple[Change, ...] = ()
    loops: tuple[Change, ...] = ()
    assumptions: tuple[Change, ...] = ()
    lines: tuple[Change, ...] = ()
    worse: tuple[str, ...] = ()
    launch_parts: tuple[Change, ...] = ()
    paid: Payment | None = None


@dataclass(frozen=True, slots=True)
class DiffReport(ReportHead):
    """Two results compared, kernels in the order of the new one, then those that are gone."""

    old: str
    new: str
    threshold_percent: float
    worse: int
    kernels: tuple[KernelChange, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A kernel of a result: ``launch`` in a few words."""

    file: str
    machine: str
    launch: str
    answer: BoundedKernel | Refused


def read_results(path: str) -> tuple[Result, ...]:
    """Reads the kernels of a JSON file: a report of bounds, several of them, or one of checks.

    Raises PtxwcetError (PW580).
    """
    try:
        data = json.loads(read_text(path, MOST_DATA_BYTES), parse_constant=_no_number)
        if isinstance(data, dict) and "checks" in data:
            checks = read_as(CheckReport, data).checks
            return tuple(Result(row.file, row.machine, row.launch, row.answer) for row in checks)
        reports = data if isinstance(data, list) else [data]
        return tuple(one for report in reports for one in results_of(read_as(Report, report)))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        what = "" if isinstance(error, NotAReport | Changed | OSError) else "it is no JSON: "
        raise PtxwcetError(
            Diagnostic(
                "PW580",
                f"'{path}' is no result that can be compared: {what}{reason}",
                help="give what ptxwcet FILE or ptxwcet check wrote with --format json",
            )
        ) from None


def is_result(path: str) -> bool:
    """Returns whether a file is JSON, by its name or its beginning."""
    if path.endswith(".json"):
        return True
    if path == STANDARD_INPUT or split_kernel(path)[1]:
        return False
    with open_input(path, MOST_DATA_BYTES) as file:
        return file.read(64).lstrip()[:1] in (b"{", b"[")


def bounded_version(request: Request) -> tuple[Sequence[Result], list[Diagnostic]]:
    """Returns the bounds of a version, explained, and why kernels are refused."""
    answer = bound_file(request)
    report = build_report(answer, explain=True, source=request.source)
    return tuple(results_of(report)), refusals(answer, report.kernels)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def results_of(report: Report) -> Iterator[Result]:
    """Yields the kernels of a report of the main job."""
    for kernel in report.kernels:
        launch = "" if isinstance(kernel, Refused) else _launch_text(kernel)
        yield Result(report.file, report.machine.name, launch, kernel)


def _launch_text(row: BoundedKernel) -> str:
    words = [f"block {'x'.join(map(str, row.block))}"]
    words += [] if row.grid is None else [f"grid {'x'.join(map(str, row.grid))}"]
    names = dict(row.parameter_names)
    words += [f"{names.get(name, name)}={value}" for name, value in row.parameters]
    return ", ".join(words)


# --- The pairs to compare -------------------------------------------------------------------------

_KEYS: tuple[Callable[[Result], Hashable], ...] = (
    lambda one: (one.answer.kernel, one.file, one.machine, one.launch),
    lambda one: (one.answer.kernel, one.machine, one.launch),
    lambda one: (one.answer.kernel, one.file, one.machine),
    lambda one: (one.answer.kernel, one.machine),
    lambda one: (one.answer.kernel, one.file),
    lambda one: (one.answer.kernel,),
)
"""The keys that pair kernels, the closest first: files and launches may change."""


def _pairs(
    old: Sequence[Result], new: Sequence[Result], keys: Sequence[Callable[[Result], Hashable]]
) -> dict[int, int]:
    """Returns the old kernel of each new one that has one, by their numbers."""
    pairs: dict[int, int] = {}
    for key_of in keys:
        left = _by_key(old, set(pairs.values()), key_of)
        right = _by_key(new, set(pairs), key_of)
        for key, numbers in right.items():
            others = left.get(key, [])
            if len(others) == len(numbers):  # several equal keys: paired in their order
                pairs |= dict(zip(numbers, others, strict=True))
    return pairs


def _by_key(
    rows: Sequence[Result], taken: set[int], key_of: Callable[[Result], Hashable]
) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for number, row in enumerate(rows):
        if number not in taken:
            found.setdefault(key_of(row), []).append(number)
    return found


def compare_results(
    paths: tuple[str, str],
    old: Sequence[Result],
    new: Sequence[Result],
    threshold_percent: Fraction = Fraction(0),
    *,
    are_versions: bool = False,
) -> DiffReport:
    """Returns the changes between two results; a bound that grew beyond the threshold fails.

    So does a kernel without a bound now, or with a weaker guarantee. ``are_versions``: kernels
    without a namesake are taken for versions of each other, in their order, if both sides have
    equally many. Cost: linear.
    """
    pairs = _pairs(old, new, (*_KEYS, lambda _: ()) if are_versions else _KEYS)
    changes = [
        _compared(old[pairs[number]], result, threshold_percent)
        if number in pairs
        else KernelChange(*_names(result), status="new")
        for number, result in enumerate(new)
    ]
    gone = set(range(len(old))) - set(pairs.values())
    changes += [KernelChange(*_names(old[number]), status="gone") for number in sorted(gone)]
    worse = sum(bool(row.worse) for row in changes)
    return DiffReport(*report_head(), *paths, float(threshold_percent), worse, tuple(changes))


def _names(row: Result) -> tuple[str, str, str, str]:
    return row.answer.readable, row.file, row.machine, row.launch


# --- one kernel -----------------------------------------------------------------------------------


def _compared(old: Result, new: Result, threshold: Fraction) -> KernelChange:
    about = [
        Change(what, before, now)
        for what, before, now in (
            ("kernel", old.answer.readable, new.answer.readable),
            ("file", old.file, new.file),
            ("machine", old.machine, new.machine),
            ("launch", old.launch, new.launch),
            ("block", _guarantee(old), _guarantee(new)),
            ("whole launch", _guarantee(old, of_launch=True), _guarantee(new, of_launch=True)),
        )
        if before != now
    ]
    bounds = changes_between(_bounds(old.answer), _bounds(new.answer))
    changes = (
        tuple(about),
        bounds,
        changes_between(_loops(old.answer), _loops(new.answer)),
        changes_between(_assumptions(old.answer), _assumptions(new.answer)),
        changes_between(_lines(old.answer), _lines(new.answer)),
    )
    worse = (*_weaker(old, new), *_grown(old, new, threshold))
    rest = changes_between(_launch_parts(old.answer), _launch_parts(new.answer)), _payment(old, new)
    status: Literal["changed", "same"] = "changed" if any((*changes, *rest)) else "same"
    return KernelChange(*_names(new), status, *changes, worse, *rest)


def _guarantee(row: Result, *, of_launch: bool = False) -> str | None:
    answer = row.answer
    if isinstance(answer, Refused) and of_launch:
        return None
    if isinstance(answer, Refused):
        return f"refused [{', '.join(dict.fromkeys(one.code for one in answer.diagnostics))}]"
    if of_launch:
        return None if answer.launch is None else answer.launch.guarantee
    return answer.guarantee


def _weaker(old: Result, new: Result) -> Iterable[str]:
    """Yields the guarantees that are lost or weaker than before."""
    if isinstance(old.answer, Refused):
        return
    if isinstance(new.answer, Refused):
        yield f"it had a bound and is {_guarantee(new)} now"
        return
    for kind, of_launch in (("block", False), ("launch", True)):
        before, now = (_guarantee(one, of_launch=of_launch) for one in (old, new))
        if before is not None and now is None:
            yield f"the bound of the {kind} is lost: {new.answer.launch_not_bounded or 'no grid'}"
        elif before and now and Guarantee(now).rank > Guarantee(before).rank:
            yield f"the bound of the {kind} was a {before} and is only an {now} now"


def _grown(old: Result, new: Result, threshold: Fraction) -> Iterable[str]:
    """Yields the bounds that grew: of the launch if both results have one, else of a block."""
    before, now = _bounds(old.answer), _bounds(new.answer)
    judged = "launch" if "launch" in before and "launch" in now else "block"
    for delta in changes_between(before, now):
        if delta.what != judged or not (isinstance(delta.old, int) and isinstance(delta.new, int)):
            continue
        if delta.new > delta.old * (1 + threshold / 100):
            by = "" if delta.growth_percent is None else f", by {delta.growth_percent:.2f} %"
            yield f"the bound of the {delta.what} grew from {delta.old} to {delta.new} cycles{by}"


def _bounds(answer: BoundedKernel | Refused) -> dict[str, int | str | None]:
    if isinstance(answer, Refused):
        return {}
    found: dict[str, int | str | None] = {"block": answer.bound_cycles}
    if answer.launch is not None:
        found["launch"] = answer.launch.cycles
    return found | {f"method {bound.method}": bound.cycles for bound in answer.bounds}


def _launch_parts(kernel: BoundedKernel | Refused) -> dict[str, int | str | None]:
    launch = None if isinstance(kernel, Refused) else kernel.launch
    return {} if launch is None else {**launch.parts}


def _loops(row: BoundedKernel | Refused) -> dict[str, int | str | None]:
    counts: dict[str, int | str | None] = {}
    times: Counter[str] = Counter()
    for loop in () if isinstance(row, Refused) else row.loops:
        times[loop.block] += 1
        again = f" ({times[loop.block]})" if times[loop.block] > 1 else ""
        counts[f"{loop.block}{again}"] = loop.iterations
        counts[f"{loop.block}{again} origin"] = loop.origin
    return counts


def _assumptions(row: BoundedKernel | Refused) -> dict[str, int | str | None]:
    if isinstance(row, Refused):
        return {}
    launch = () if row.launch is None else row.launch.assumptions
    return _states("block", row.assumptions) | _states("launch", launch)


def _states(of: str, rows: Iterable[AssumptionRow]) -> dict[str, int | str | None]:
    return {f"{row.key} (of the {of})": row.state for row in rows}


def _lines(row: BoundedKernel | Refused) -> dict[str, int | str | None]:
    return {} if isinstance(row, Refused) else {r.place: r.cycles for r in row.costliest_lines}


def _payment(old: Result, new: Result) -> Payment | None:
    before, now = (
        None if isinstance(one.answer, Refused) else one.answer.explanation for one in (old, new)
    )
    return None if before is None or now is None else payment_of(before, now)


# --- The causes of the difference -----------------------------------------------------------------


def changes_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """Returns the values that differ, or that only one side has; in the order of the new side."""
    return tuple(
        Change(key, old.get(key), new.get(key), _growth(old.get(key), new.get(key)))
        for key in dict.fromkeys((*new, *old))
        if old.get(key) != new.get(key)
    )


def _growth(old: int | str | None, new: int | str | None) -> float | None:
    if not isinstance(old, int) or not isinstance(new, int) or old == 0:
        return None
    return round(100 * (new / old - 1), 2)


def payment_of(before: Explanation, now: Explanation) -> Payment | None:
    """Returns the causes of a difference of bounds; None if all pay the same. Cost: sorting."""
    parts = [paid_parts(explanation.lines) for explanation in (before, now)]
    classes = [{row.place: row.total for row in one.op_classes} for one in (before, now)]
    payment = Payment(
        now.cycles - before.cycles,
        _by_difference(changes_between(*parts)),
        _by_difference(changes_between(*classes)),
        _by_difference(one for one in _line_changes(before, now) if one.old != one.new),
    )
    return payment if payment.parts or payment.op_classes or payment.lines else None


_Changed = TypeVar("_Changed", Change, LineChange)


def _by_difference(rows: Iterable[_Changed]) -> tuple[_Changed, ...]:
    return tuple(sorted(rows, key=lambda one: -abs(difference_of(one))))


def difference_of(one: Change | LineChange) -> int:
    """Returns new minus old cycles; a missing value counts as 0."""
    old, new = (value if isinstance(value, int) else 0 for value in (one.old, one.new))
    return new - old


def _line_changes(old: Explanation, new: Explanation) -> Iterator[LineChange]:
    """Yields each line of both, paired by equal text, else by equal place, else unpaired."""
    left, right = _in_order(old.lines), _in_order(new.lines)
    for key_of in (_by_text, _by_place):
        before = key_of(left.values())
        for key, line in key_of(right.values()).items():
            match = before.get(key)
            if match is not None:
                yield LineChange(match.place, line.place, line.text, match.total, line.total)
                del left[match.place], right[line.place]
    yield from (LineChange(row.place, None, row.text, row.total, None) for row in left.values())
    yield from (LineChange(None, row.place, row.text, None, row.total) for row in right.values())


def _in_order(rows: Iterable[PaidRow]) -> dict[str, PaidRow]:
    """Returns lines by their places, in the order of file and number."""

    def key(row: PaidRow) -> tuple[str, int, str]:
        file, _, number = row.place.rpartition(":")
        return file, int(number) if number.isdecimal() else 0, row.place

    return {row.place: row for row in sorted(rows, key=key)}


def _by_text(rows: Iterable[PaidRow]) -> dict[Hashable, PaidRow]:
    times: Counter[str] = Counter()
    lines: dict[Hashable, PaidRow] = {}
    for row in rows:
        if row.text is not None:
            text = " ".join(row.text.split())
            times[text] += 1
            lines[text, times[text]] = row
    return lines


def _by_place(rows: Iterable[PaidRow]) -> dict[Hashable, PaidRow]:
    return {row.place: row for row in rows}
