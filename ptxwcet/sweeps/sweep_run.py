"""Runs a plan of units: units without a cached answer are analysed.

Answers are written at once, so that a stopped run continues where it was. When all are there, the
tables are written (:mod:`ptxwcet.sweeps.tables`).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from pathlib import Path

from ptxwcet.opened.inputs import ChangedFile, Inputs, KeyedRequest
from ptxwcet.opened.nvcc import COMPILED
from ptxwcet.support.answer_store import STORE, AnswerStore, KeptEntry, KeptFailure
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.whole_files import write_text
from ptxwcet.sweeps.cell import Result, Unit
from ptxwcet.sweeps.engine import Cluster, results_of
from ptxwcet.sweeps.kernel_work import WORK, failure, kept_result, kernel_unit
from ptxwcet.sweeps.sweep_plan import PlannedUnit, SweepPlan
from ptxwcet.sweeps.tables import PARQUET, Row, write_tables

_PLAN = "plan.json"
_WRITE_SECONDS = 0.25
"""The seconds between two writes of answers, each of which is a transaction."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result of a sweep: units by outcome, those analysed now, and the folder of the tables."""

    folder: Path
    outcomes: Counter[str]
    analysed: int


def run_sweep(
    plan: SweepPlan,
    folder: Path,
    cluster: Callable[[], AbstractContextManager[Cluster]],
    *,
    resume: bool = False,
    cache: Path | None = None,
    progress: Progress = lambda _done, _all: None,
) -> SweepResult:
    """Analyses the units of a plan without an answer, and writes its tables into ``folder``.

    The cluster is only started if an answer is missing. ``cache`` is the folder of answers, by
    default ``folder``. Raises PtxwcetError: PW823 (a folder of another plan, or with results but
    without ``resume``), PW820 to PW822 (cluster), PW825 (store). Cost: the missing bounds, and some
    0.1 ms a unit. Memory does not grow with the number of units.
    """
    claim_of(plan).take(folder, resume=resume, is_used=_has_results)
    with AnswerStore(folder if cache is None else cache) as store:
        run = _Run(plan, store, progress)
        with closing(results_of(WORK, run.missing(), cluster, plan.limits)) as results:
            run.keep(results)
        outcomes = write_tables(plan, folder, run.rows())
        return SweepResult(folder, outcomes, run.analysed)


def claim_of(plan: SweepPlan) -> Claim:
    """Returns the claim by which an output folder belongs to a plan."""
    return Claim(
        "PW823",
        {"plan": Path(plan.path).name, "sha256": plan.sha256},
        ("sha256",),
        (
            "results of another plan",
            "name another folder, and this one with --cache to use its answers",
        ),
        (
            "results of this plan",
            "--resume goes on with it, and analyses what has changed",
        ),
    )


def compiled_in(folder: Path, plan: str) -> Path | None:
    """Returns the output folder as the default cache of files that a plan compiles.

    The result is None for a folder of another plan or with other files: nothing is written to it.
    """
    mark = folder / _PLAN
    try:
        if mark.exists():
            is_ours = json.loads(mark.read_text(encoding="utf-8"))["plan"] == Path(plan).name
        else:
            is_ours = not _holds_files(folder)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # the claim reports the problem
    return folder if is_ours else None


def _holds_files(folder: Path) -> bool:
    """Returns whether a folder has more than compiled files. Raises OSError."""
    return folder.is_dir() and any(one.name != COMPILED for one in folder.iterdir())


class _Run:
    """One run: the units in progress, by number, and the number of units that are done."""

    def __init__(self, plan: SweepPlan, store: AnswerStore, progress: Progress) -> None:
        self._plan, self._store, self._progress = plan, store, progress
        self._inputs = Inputs()
        self._under_way: dict[int, KeyedRequest] = {}
        self._keys: set[str] = set()  # of units in progress: equal units are analysed once
        self._failed: set[str] = set()  # in this run: these are not tried again either
        self._total = plan.count()
        self._entries: list[KeptEntry | KeptFailure] = []  # that are not written yet
        self._written = time.monotonic()
        self._done = 0
        self.analysed = 0

    def keep(self, results: Iterator[Result | None]) -> None:
        """Stores the results of the units."""
        try:
            for result in results:
                if result is not None:
                    keyed = self._under_way.pop(result.number)
                    self._entries.append(kept_result(keyed, result))
                    self._done += 1
                    self.analysed += 1
                if result is None or time.monotonic() - self._written > _WRITE_SECONDS:
                    self._write()
                    self._progress(self._done, self._total)
        finally:
            self._write()

    def rows(self) -> Iterator[Row]:
        """Yields the rows of the tables, in the plan's order."""
        for planned in self._plan.units():
            keyed = self._inputs.keyed(planned.request)
            kept = self._store.summary(keyed.key)
            if kept is None:  # another program has changed the file meanwhile
                message = f"the answer of unit {planned.index} is gone from '{self._store.path}'"
                raise PtxwcetError(Diagnostic("PW825", message, help="--resume analyses it again"))
            yield Row(planned, keyed, *kept)

    def missing(self) -> Iterator[Unit]:
        """Yields the units without an answer, in the plan's order; they are then in progress."""
        for planned in self._plan.units():
            keyed = self._inputs.keyed(planned.request)
            key = keyed.key
            if key in self._keys or key in self._failed or self._store.has_answer(key):
                self._done += 1
                continue
            unit = self._unit(planned, keyed)
            if unit is not None:
                self._keys.add(keyed.key)
                self._under_way[planned.index] = keyed
                yield unit

    def _unit(self, planned: PlannedUnit, keyed: KeyedRequest) -> Unit | None:
        """Returns the unit; None, with a row that reports it, if a file has changed."""
        try:
            return kernel_unit(planned.index, keyed, self._inputs.supplied(keyed))
        except ChangedFile as changed:
            why = f"{changed} cannot be read, or is not as it was when the sweep began"
            self._keys.add(keyed.key)
            self._entries.append(failure(keyed, "PW804", why))
            self._done += 1
            return None

    def _write(self) -> None:
        """Writes the results of units, which are in progress until then."""
        self._store.add(self._entries)
        for entry in self._entries:
            self._keys.discard(entry.key)
            if isinstance(entry, KeptFailure):
                self._failed.add(entry.key)
        self._entries.clear()
        self._written = time.monotonic()


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim to a folder of results: a mark, and the messages if the folder is another's.

    Equal values of ``key`` in marks are of one plan. ``others`` and ``again`` are the message and
    remedy for a folder of another plan, and for one with results of this one.
    """

    code: str
    mark: Mapping[str, object]
    key: tuple[str, ...]
    others: tuple[str, str]
    again: tuple[str, str]

    def take(self, folder: Path, *, resume: bool, is_used: Callable[[Path], bool]) -> None:
        """Makes the folder the plan's. Raises PtxwcetError."""
        mark = folder / _PLAN
        try:
            held = json.loads(mark.read_text(encoding="utf-8"))
            is_ours = all(held[name] == self.mark[name] for name in self.key)
        except FileNotFoundError:
            if self._has_others(folder):
                raise self._error(f"folder '{folder}' holds other files") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise self._error(f"cannot read '{mark}'") from None
        else:
            if not is_ours:
                raise self._error(f"folder '{folder}' holds {self.others[0]}", self.others[1])
            if not resume and is_used(folder):
                raise self._error(f"folder '{folder}' holds {self.again[0]}", self.again[1])
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._error(f"cannot make folder '{folder}': {error.strerror}") from None
        write_text(mark, json.dumps(self.mark) + "\n", self.code)

    def _has_others(self, folder: Path) -> bool:
        try:
            return _holds_files(folder)
        except OSError as error:
            raise self._error(f"cannot read folder '{folder}': {error.strerror}") from None

    def _error(self, message: str, remedy: str = "name another folder") -> PtxwcetError:
        return PtxwcetError(Diagnostic(self.code, message, help=remedy))


def _has_results(folder: Path) -> bool:
    """Returns whether a run kept anything in a folder: one whose cluster was not there did not."""
    if (folder / PARQUET).exists():
        return True
    if not (folder / STORE).exists():
        return False
    with AnswerStore(folder) as store:
        return not store.is_empty()
