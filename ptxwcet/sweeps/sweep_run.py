"""Running a plan of units: what has no answer yet is analysed, what has one is not.

Answers are written as they come, so that a run that is stopped at any moment goes on where it was.
When all are there, the tables are written (:mod:`ptxwcet.sweeps.tables`).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from ptxwcet.opened.inputs import ChangedFile, Inputs, KeyedRequest
from ptxwcet.support.answer_store import STORE, AnswerStore, KeptEntry, KeptFailure
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.whole_files import write_text
from ptxwcet.sweeps.engine import Cluster, run_campaign
from ptxwcet.sweeps.kernel_work import WORK, failure, kept_result, kernel_unit
from ptxwcet.sweeps.sweep_plan import PlannedUnit, SweepPlan
from ptxwcet.sweeps.tables import PARQUET, Row, write_tables
from ptxwcet.sweeps.work import Unit

_PLAN = "plan.json"
_WRITE_SECONDS = 0.25
"""Between two writes of answers, each of which is a transaction."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What came of a sweep: units by outcome, those analysed now, and where the tables are."""

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
    """Runs what is missing of a plan, and writes its tables into ``folder``.

    The cluster is only started if something is missing. ``cache`` is the folder of the kept
    answers, ``folder`` without one. Raises PtxwcetError: PW823 (a folder of another plan, or one
    that holds results though nobody said ``resume``), PW820 to PW822 (cluster), PW825 (store).
    Cost: that of the bounds that are missing, and some 0.1 ms a unit. Memory does not grow with the
    number of units.
    """
    _claim_folder(folder, plan, resume=resume)
    with AnswerStore(folder if cache is None else cache) as store:
        run = _Run(plan, store, progress)
        missing = run.missing()
        first = list(islice(missing, 1))
        if first:
            with cluster() as started:
                run.work_on(started, chain(first, missing))
        run.write()
        outcomes = write_tables(plan, folder, run.rows())
        return SweepResult(folder, outcomes, run.analysed)


class _Run:
    """One run: the units under way, by number, and how many are done."""

    def __init__(self, plan: SweepPlan, store: AnswerStore, progress: Progress) -> None:
        self._plan, self._store, self._progress = plan, store, progress
        self._inputs = Inputs()
        self._under_way: dict[int, KeyedRequest] = {}
        self._keys: set[str] = set()  # of units under way: equal units are analysed once
        self._failed: set[str] = set()  # in this run: nor are these tried again
        self._total = plan.count()
        self._entries: list[KeptEntry | KeptFailure] = []  # that are not written yet
        self._written = time.monotonic()
        self._done = 0
        self.analysed = 0

    def work_on(self, cluster: Cluster, units: Iterator[Unit]) -> None:
        """Has the units done, and keeps what comes of them."""
        # closed here: while an exception is on its way, nobody else would before the cluster is
        with closing(run_campaign(WORK, units, cluster, self._plan.limits)) as results:
            try:
                for result in results:
                    if result is not None:
                        keyed = self._under_way.pop(result.number)
                        self._entries.append(kept_result(keyed, result))
                        self._done += 1
                        self.analysed += 1
                    if result is None or time.monotonic() - self._written > _WRITE_SECONDS:
                        self.write()
                        self._progress(self._done, self._total)
            finally:
                self.write()

    def rows(self) -> Iterator[Row]:
        """The rows of the tables, in the plan's order."""
        for planned in self._plan.units():
            keyed = self._inputs.keyed(planned.request)
            kept = self._store.summary(keyed.key)
            if kept is None:  # another program has changed the file meanwhile
                message = f"the answer of unit {planned.index} is gone from '{self._store.path}'"
                raise PtxwcetError(Diagnostic("PW825", message, help="--resume analyses it again"))
            yield Row(planned, keyed, *kept)

    def missing(self) -> Iterator[Unit]:
        """The units without an answer, in the plan's order; they are under way then."""
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
        """The unit; None, with a row that says so, if a file is not as it was any more."""
        try:
            return kernel_unit(planned.index, keyed, self._inputs.supplied(keyed))
        except ChangedFile as changed:
            why = f"{changed} cannot be read, or is not as it was when the sweep began"
            self._keys.add(keyed.key)
            self._entries.append(failure(keyed, "PW804", why))
            self._done += 1
            return None

    def write(self) -> None:
        """Writes what has come of units, which are under way until then."""
        self._store.add(self._entries)
        for entry in self._entries:
            self._keys.discard(entry.key)
            if isinstance(entry, KeptFailure):
                self._failed.add(entry.key)
        self._entries.clear()
        self._written = time.monotonic()


def _claim_folder(folder: Path, plan: SweepPlan, *, resume: bool) -> None:
    """Makes the folder the plan's. Raises PtxwcetError (PW823)."""
    mark = folder / _PLAN
    try:
        held = json.loads(mark.read_text(encoding="utf-8"))["sha256"]
    except FileNotFoundError:
        if _holds_files(folder):
            raise _not_ours(f"folder '{folder}' holds other files", "name another folder") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise _not_ours(f"cannot read '{mark}'", "name another folder") from None
    else:
        if held != plan.sha256:
            remedy = "name another folder, and this one with --cache to use its answers"
            raise _not_ours(f"folder '{folder}' holds results of another plan", remedy)
        if not resume and _has_results(folder):
            remedy = "--resume goes on with it, and analyses what has changed"
            raise _not_ours(f"folder '{folder}' holds results of this plan", remedy)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_ours(f"cannot make folder '{folder}': {error.strerror}", None) from None
    name = Path(plan.path).name
    write_text(mark, json.dumps({"plan": name, "sha256": plan.sha256}) + "\n", "PW233")


def _holds_files(folder: Path) -> bool:
    """Whether a folder is there and not empty. Raises PtxwcetError (PW823)."""
    try:
        return folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise _not_ours(f"cannot read folder '{folder}': {error.strerror}", None) from None


def _has_results(folder: Path) -> bool:
    """Whether a run kept anything in a folder: one whose cluster was not there did not."""
    if (folder / PARQUET).exists():
        return True
    if not (folder / STORE).exists():
        return False
    with AnswerStore(folder) as store:
        return not store.is_empty()


def _not_ours(message: str, remedy: str | None) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW823", message, help=remedy))
