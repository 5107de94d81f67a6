"""Running attacks: units on the engine, what they see kept as it comes, witnesses saved.

Units are the seeds from the first one on, the attacks in turn. A summary speaks of seeds without a
gap, so that it is made again by their number, whatever did the work.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxwcet.opened.inputs import describe_here
from ptxwcet.report.head import report_head
from ptxwcet.support.answer_store import AnswerStore, KeptEntry, KeptFailure, pack
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.whole_files import write_text
from ptxwcet.sweeps.attack_file import WORK, AttackFile
from ptxwcet.sweeps.attack_report import (
    AttackReport,
    RunAttackRow,
    UnfinishedRow,
    WitnessRow,
)
from ptxwcet.sweeps.attacks import Attack, Seen, Witness, seen_from_json
from ptxwcet.sweeps.engine import Cluster, run_campaign
from ptxwcet.sweeps.work import Ending, Limits, Result, Unit
from ptxwcet.validate.attack_rows import ControlRow

LIMITS = Limits(memory_mib=4096, seconds=1800)
"""Of a unit. Effort is bounded in steps: what takes more is a finding. Shrinking takes minutes."""
MOST_WITNESSES = 100
"""Witnesses that a report names; all are counted, and all are saved."""
_MOST_GAP = 5_000
"""Units in turn that may be under way at once, so that a run that is stopped has none of them."""
_PLAN = "plan.json"
_WITNESSES = "witnesses"
_FINDINGS = {
    Ending.DIED: ("died", "the process of the unit died: "),
    Ending.MEMORY: ("effort", "the unit takes "),
    Ending.SECONDS: ("effort", "the unit takes too long: "),
    Ending.RAISED: ("internal error", ""),
}
_STOPPED = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT")
"""Signals that come from outside: of a system without memory, or of a person."""

Progress = Callable[[int, int, float], None]
"""Called with the units done, the violations, and the part (0 to 1) of the run that is over."""


@dataclass(frozen=True, slots=True)
class AttackPlan:
    """Which attacks, from which seed on, and how far: so many units each, or seconds."""

    attacks: tuple[Attack, ...]
    file: AttackFile | None
    first_seed: int = 1
    units: int | None = None
    seconds: float = 60.0

    def key(self, attack: Attack, seed: int) -> str:
        """The key that a unit is kept under."""
        is_own = self.file is not None and attack in self.file.attacks
        whole = {
            "attack": attack.name,
            "seed": seed,
            "file": self.file.sha256 if is_own and self.file is not None else None,
            "installation": dict(describe_here()),
        }
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    def unit(self, number: int, attack: Attack, seed: int) -> Unit:
        """The unit of a seed."""
        is_own = self.file is not None and attack in self.file.attacks
        file = self.file if is_own else None
        payload = {
            "attack": attack.name,
            "seed": seed,
            "file": None if file is None else str(file.path),
            "file_sha256": None if file is None else file.sha256,
        }
        return Unit(number, payload, {})


def run_attacks(
    plan: AttackPlan,
    folder: Path,
    cluster: Callable[[], AbstractContextManager[Cluster]],
    *,
    resume: bool = False,
    progress: Progress = lambda _done, _violations, _part: None,
) -> AttackReport:
    """Runs what is missing of a plan; witnesses are in ``folder`` as soon as they are found.

    Raises PtxwcetError: PW832 (a folder of other attacks, or one that holds results though nobody
    said ``resume``), PW831 (a worker has another file of attacks), PW820 to PW822, PW825. Cost:
    that of the units, and less than 1 ms for each. Memory does not grow with their number.
    """
    _claim_folder(folder, plan, resume=resume)
    with AnswerStore(folder) as store:
        run = _Run(plan, folder, store, progress)
        missing = run.missing()
        first = list(itertools.islice(missing, 1))
        if first:
            with cluster() as started:
                run.work_on(started, itertools.chain(first, missing))
        return run.report()


class _Run:
    """One run: the units under way, by number, and how far each attack has come."""

    def __init__(
        self, plan: AttackPlan, folder: Path, store: AnswerStore, progress: Progress
    ) -> None:
        self._plan, self._folder, self._store, self._progress = plan, folder, store, progress
        self._under_way: dict[int, tuple[Attack, int]] = {}
        self._reached = dict.fromkeys((attack.name for attack in plan.attacks), 0)
        self._begin: float | None = None
        self._done = self._violations = 0

    def missing(self) -> Iterator[Unit]:
        """The units that are not kept, in the order of seeds; they are under way then."""
        turns = itertools.count() if self._plan.units is None else range(self._plan.units)
        numbers = itertools.count()
        kept = self._kept_turns() if self._plan.units is None else 0
        for turn in turns:
            for attack in self._plan.attacks:
                if self._plan.units is None and turn >= kept and self._part() >= 1:
                    return
                number, seed = next(numbers), self._plan.first_seed + turn
                self._reached[attack.name] = turn + 1
                if self._store.has_answer(self._plan.key(attack, seed)):
                    self._done += 1
                    continue
                self._under_way[number] = (attack, seed)
                yield self._plan.unit(number, attack, seed)

    def _kept_turns(self) -> int:
        """The turns up to the last of which anything is kept: none is left out of a summary.

        A run that was stopped has left gaps among its last units, and may have found something
        beyond them. Cost: about 0.1 ms for each attack and turn.
        """
        turns = turn = 0
        while turn < turns + _MOST_GAP and not self._store.is_empty():
            seed = self._plan.first_seed + turn
            keys = [self._plan.key(attack, seed) for attack in self._plan.attacks]
            turn += 1
            if any(self._store.summary(key) is not None for key in keys):
                turns = turn
        return turns

    def work_on(self, cluster: Cluster, units: Iterator[Unit]) -> None:
        """Has the units done, and keeps what comes of them."""
        self._begin = time.monotonic()
        file = self._plan.file
        # a process that has imported what the file was before is none for what it is now
        work = WORK if file is None else f"{WORK}#{file.sha256}"
        # closed here: while an exception is on its way, nobody else would before the cluster is
        with closing(run_campaign(work, units, cluster, LIMITS)) as results:
            for result in results:
                if result is not None:
                    attack, seed = self._under_way.pop(result.number)
                    self._keep(attack, seed, result)
                    self._done += 1
                self._progress(self._done, self._violations, min(self._part(), 1.0))

    def _part(self) -> float:
        """Which part of the run is over."""
        if self._plan.units is not None:
            return self._done / (self._plan.units * len(self._plan.attacks))
        if self._begin is None:
            return 0.0
        return (time.monotonic() - self._begin) / max(self._plan.seconds, 1e-9)

    def _keep(self, attack: Attack, seed: int, result: Result) -> None:
        """Keeps what came of a unit, and saves its witnesses."""
        key = self._plan.key(attack, seed)
        if result.ending is not Ending.DONE:
            kind, what = _FINDINGS[result.ending]
            is_stopped = kind == "died" and any(name in result.why for name in _STOPPED)
            failure = {"kind": kind, "why": what + result.why, "is_stopped": is_stopped}
            self._store.add([KeptFailure(key, failure)])
            self._violations += not is_stopped
            if not is_stopped:
                self._save(attack, seed, [_failed(failure)])
            return
        value = result.value
        if "other" in value:
            raise PtxwcetError(Diagnostic("PW831", value["other"], help="a worker said so"))
        self._store.add([KeptEntry(key, value["seen"], pack(value), result.seconds)])
        self._violations += value["seen"]["violations"]
        self._save(attack, seed, [_witness(one) for one in value["witnesses"]])

    def report(self) -> AttackReport:
        """The report of all units, from what is kept, in the order of seeds."""
        rows: list[RunAttackRow] = []
        witnesses: list[WitnessRow] = []
        unfinished: list[UnfinishedRow] = []
        for attack in self._plan.attacks:
            total = Seen()
            for seed in self._seeds(attack):
                kept = self._store.summary(self._plan.key(attack, seed))
                assert kept is not None, "each unit that was started has ended"
                row = kept[0]
                if row.get("is_stopped"):
                    unfinished.append(UnfinishedRow(attack.name, seed, row["why"]))
                    continue
                is_failed = "is_stopped" in row
                seen = Seen(violations=1) if is_failed else seen_from_json(row)
                total.add(seen)
                if seen.violations:
                    found = [_failed(row)] if is_failed else self._witnesses(attack, seed)
                    more = self._witness_rows(attack, seed, found)
                    witnesses += more[: MOST_WITNESSES - len(witnesses)]
            rows.append(self._row(attack, total))
        file = self._plan.file
        return AttackReport(
            *report_head(),
            describe_here()["sources"],
            None if file is None else file.path.name,
            None if file is None else file.sha256,
            tuple(rows),
            sum(row.violations for row in rows),
            tuple(witnesses),
            tuple(unfinished),
        )

    def _seeds(self, attack: Attack) -> range:
        first = self._plan.first_seed
        return range(first, first + self._reached[attack.name])

    def _row(self, attack: Attack, total: Seen) -> RunAttackRow:
        controls = tuple(ControlRow(name, *total.controls[name]) for name in sorted(total.controls))
        return RunAttackRow(
            attack.name,
            attack.attacked,
            self._plan.first_seed,
            len(self._seeds(attack)),
            total.cases,
            total.runs,
            total.violations,
            dict(sorted(total.counts.items())),
            controls,
        )

    def _witness_rows(
        self, attack: Attack, seed: int, witnesses: list[Witness]
    ) -> list[WitnessRow]:
        files = self._save(attack, seed, witnesses)
        return [
            WitnessRow(attack.name, seed, witness.kind, witness.title, names)
            for witness, names in zip(witnesses, files, strict=True)
        ]

    def _witnesses(self, attack: Attack, seed: int) -> list[Witness]:
        whole = self._store.answer(self._plan.key(attack, seed))
        return [_witness(one) for one in whole["witnesses"]] if whole is not None else []

    def _save(self, attack: Attack, seed: int, witnesses: list[Witness]) -> list[tuple[str, ...]]:
        """Saves witnesses; the names of the files of each in the folder."""
        names = []
        for number, witness in enumerate(witnesses, 1):
            base = f"{attack.name}-{seed}" + (f"-{number}" if number > 1 else "")
            file = self._plan.file
            source = f" {file.path.name}" if file and attack in file.attacks else ""
            lines = [
                f"{witness.kind}: {witness.title}",
                *witness.lines,
                f"again: ptxwcet validate attack {attack.name}{source} --seed {seed} --cases 1",
            ]
            files = {f"{_WITNESSES}/{base}.txt": "\n".join(lines) + "\n"}
            if witness.ptx:
                files[f"{_WITNESSES}/{base}.ptx"] = witness.ptx
            (self._folder / _WITNESSES).mkdir(exist_ok=True)
            for name, text in files.items():
                write_text(self._folder / name, text, "PW832")
            names.append(tuple(files))
        return names


def _witness(data: Mapping[str, Any]) -> Witness:
    return Witness(data["kind"], data["title"], tuple(data["lines"]), data["ptx"])


def _failed(failure: Mapping[str, Any]) -> Witness:
    return Witness(failure["kind"], failure["why"])


def _claim_folder(folder: Path, plan: AttackPlan, *, resume: bool) -> None:
    """Makes the folder the plan's. Raises PtxwcetError (PW832)."""
    mark = folder / _PLAN
    ours = {
        "attacks": [attack.name for attack in plan.attacks],
        "file": None if plan.file is None else plan.file.path.name,
        "first_seed": plan.first_seed,
    }
    try:
        held = json.loads(mark.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if folder.is_dir() and any(folder.iterdir()):
            raise _not_ours(f"folder '{folder}' holds other files", "name another folder") from None
    except (OSError, ValueError):
        raise _not_ours(f"cannot read '{mark}'", "name another folder") from None
    else:
        if held != ours:
            raise _not_ours(f"folder '{folder}' holds results of other attacks or seeds", None)
        if not resume:
            remedy = "--resume goes on with it: what is there is not attacked again"
            raise _not_ours(f"folder '{folder}' holds results of these attacks", remedy)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_ours(f"cannot make folder '{folder}': {error.strerror}", None) from None
    write_text(mark, json.dumps(ours) + "\n", "PW832")


def _not_ours(message: str, remedy: str | None) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW832", message, help=remedy or "name another folder"))
