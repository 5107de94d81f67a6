"""Runs attacks: units on the engine, with results stored at once, and witnesses saved.

Units are the seeds from the first one on, the attacks in turn. A summary covers seeds without a
gap, so their number reproduces it, on any workers.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

from ptxwcet.opened.inputs import describe_here
from ptxwcet.report.head import report_head
from ptxwcet.support.answer_store import AnswerStore, KeptEntry, KeptFailure, pack
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.whole_files import write_text
from ptxwcet.sweeps.attack_report import (
    AttackReport,
    RunAttackRow,
    UnfinishedRow,
    WitnessRow,
)
from ptxwcet.sweeps.attacks import WORK, Attack, AttackFile, Seen, Witness, seen_from_json
from ptxwcet.sweeps.cell import Ending, Limits, Result, Unit
from ptxwcet.sweeps.engine import Cluster, results_of
from ptxwcet.sweeps.sweep_run import Claim
from ptxwcet.validate.attack_rows import ControlRow

LIMITS = Limits(memory_mib=4096, seconds=1800)
"""The limits of a unit: a unit above these is a finding. Shrinking takes minutes."""
MOST_WITNESSES = 100
"""Witnesses that a report names; all are counted, and all are saved."""
_MOST_GAP = 5_000
"""The most units in progress, in turn, so that a stopped run has left fewer gaps than this."""
_WITNESSES = "witnesses"
_FINDINGS = {
    Ending.DIED: ("died", "the process of the unit died: "),
    Ending.MEMORY: ("effort", "the unit takes "),
    Ending.SECONDS: ("effort", "the unit takes too long: "),
    Ending.RAISED: ("internal error", ""),
}
_STOPPED = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT")
"""Signals from outside: of a system without memory, or of a user."""

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

    def file_of(self, attack: Attack) -> AttackFile | None:
        """Returns the file of an attack; None for the package's attacks."""
        return self.file if self.file is not None and attack in self.file.attacks else None

    def key(self, attack: Attack, seed: int) -> str:
        """Returns the key that a unit is kept under."""
        file = self.file_of(attack)
        whole = {
            "attack": attack.name,
            "seed": seed,
            "file": None if file is None else file.sha256,
            "installation": dict(describe_here()),
        }
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    def unit(self, number: int, attack: Attack, seed: int) -> Unit:
        """Returns the unit of a seed."""
        file = self.file_of(attack)
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
    """Runs the missing units of a plan; witnesses are in ``folder`` as soon as they are found.

    Raises PtxwcetError: PW832 (a folder of other attacks, or with results but without ``resume``),
    PW831 (a worker has another file of attacks), PW820 to PW822, PW825. Cost: the units, and less
    than 1 ms for each. Memory does not grow with their number.
    """
    ours = {
        "attacks": [attack.name for attack in plan.attacks],
        "file": None if plan.file is None else plan.file.path.name,
        "first_seed": plan.first_seed,
    }
    claim = Claim(
        "PW832",
        ours,
        tuple(ours),
        ("results of other attacks or seeds", "name another folder"),
        (
            "results of these attacks",
            "--resume goes on with it: what is there is not attacked again",
        ),
    )
    claim.take(folder, resume=resume, is_used=lambda _: True)
    with AnswerStore(folder) as store:
        run = _Run(plan, folder, store, progress)
        # a process that has imported an older version of the file must not run the present one
        work = WORK if plan.file is None else f"{WORK}#{plan.file.sha256}"
        with closing(results_of(work, run.missing(), cluster, LIMITS)) as results:
            run.keep(results)
        return run.report()


class _Run:
    """One run: the units in progress, by number, and the seeds that each attack has reached."""

    def __init__(
        self, plan: AttackPlan, folder: Path, store: AnswerStore, progress: Progress
    ) -> None:
        self._plan, self._folder, self._store, self._progress = plan, folder, store, progress
        self._under_way: dict[int, tuple[Attack, int]] = {}
        self._reached = dict.fromkeys((attack.name for attack in plan.attacks), 0)
        self._begin: float | None = None
        self._done = self._violations = 0

    def missing(self) -> Iterator[Unit]:
        """Yields the units without a stored result, in the order of seeds; then in progress."""
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
                # another unit is requested: the first one has started the workers
                self._begin = self._begin or time.monotonic()

    def _kept_turns(self) -> int:
        """Returns the number of turns up to the last stored one: a summary omits none.

        A stopped run leaves gaps among its last units, and may have results after them. Cost: about
        0.1 ms for each attack and turn.
        """
        turns = turn = 0
        while turn < turns + _MOST_GAP and not self._store.is_empty():
            seed = self._plan.first_seed + turn
            keys = [self._plan.key(attack, seed) for attack in self._plan.attacks]
            turn += 1
            if any(self._store.summary(key) is not None for key in keys):
                turns = turn
        return turns

    def keep(self, results: Iterator[Result | None]) -> None:
        """Stores the results of the units."""
        for result in results:
            if result is not None:
                self._keep(*self._under_way.pop(result.number), result)
                self._done += 1
            self._progress(self._done, self._violations, min(self._part(), 1.0))

    def _part(self) -> float:
        """Returns which part of the run is over."""
        if self._plan.units is not None:
            return self._done / (self._plan.units * len(self._plan.attacks))
        if self._begin is None:
            return 0.0
        return (time.monotonic() - self._begin) / max(self._plan.seconds, 1e-9)

    def _keep(self, attack: Attack, seed: int, result: Result) -> None:
        """Stores the result of a unit, and saves its witnesses."""
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
        """Returns the report of all units, from the stored results, in the order of seeds."""
        rows: list[RunAttackRow] = []
        witnesses: list[WitnessRow] = []
        unfinished: list[UnfinishedRow] = []
        first = self._plan.first_seed
        for attack in self._plan.attacks:
            total, units = Seen(), self._reached[attack.name]
            for seed in range(first, first + units):
                key = self._plan.key(attack, seed)
                kept = self._store.summary(key)
                assert kept is not None, "each unit that was started has ended"
                kept_row = kept[0]
                if kept_row.get("is_stopped"):
                    unfinished.append(UnfinishedRow(attack.name, seed, kept_row["why"]))
                    continue
                is_failed = "is_stopped" in kept_row
                seen = Seen(violations=1) if is_failed else seen_from_json(kept_row)
                total.add(seen)
                if seen.violations:
                    whole = self._store.answer(key) or {"witnesses": ()}
                    shown = list(map(_witness, whole["witnesses"]))
                    shown = [_failed(kept_row)] if is_failed else shown
                    saved = self._save(attack, seed, shown)
                    witnesses += [
                        WitnessRow(attack.name, seed, one.kind, one.title, names)
                        for one, names in zip(shown, saved, strict=True)
                    ][: MOST_WITNESSES - len(witnesses)]
            controls = (ControlRow(name, *told) for name, told in sorted(total.controls.items()))
            rows.append(
                RunAttackRow(
                    *(attack.name, attack.attacked, first, units),
                    *(total.cases, total.runs, total.violations),
                    dict(sorted(total.counts.items())),
                    tuple(controls),
                )
            )
        file = self._plan.file
        return AttackReport(
            *report_head(),
            describe_here()["sources"],
            None if file is None else file.path.name,
            None if file is None else file.sha256,
            tuple(rows),
            sum(kept_row.violations for kept_row in rows),
            tuple(witnesses),
            tuple(unfinished),
        )

    def _save(self, attack: Attack, seed: int, witnesses: list[Witness]) -> list[tuple[str, ...]]:
        """Saves witnesses; the names of the files of each in the folder."""
        names = []
        for number, witness in enumerate(witnesses, 1):
            base = f"{attack.name}-{seed}" + (f"-{number}" if number > 1 else "")
            file = self._plan.file_of(attack)
            source = "" if file is None else f" {file.path.name}"
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
