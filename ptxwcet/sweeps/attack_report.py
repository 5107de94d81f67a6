"""The report of ``ptxwcet validate attack``, as plain data and as text. Schema number 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptxwcet.report.head import ReportHead
from ptxwcet.support.records import dataclass
from ptxwcet.validate.attack_rows import ControlRow


@dataclass(frozen=True, slots=True)
class RunAttackRow:
    """An attack: units of the seeds from ``first_seed`` on, without gaps, and what they saw.

    ``counts`` are numbers of its own, by name. ``controls`` are false statements, attacked alike.
    """

    name: str
    attacked: str
    first_seed: int
    units: int
    cases: int
    runs: int
    violations: int
    counts: Mapping[str, int]
    controls: tuple[ControlRow, ...]


@dataclass(frozen=True, slots=True)
class WitnessRow:
    """What contradicts the tool, the seed of its unit, and files of the folder that show it.

    ``kind`` is of the attack, or ``died``, ``effort`` or ``internal error``: a unit without an end.
    """

    attack: str
    seed: int
    kind: str
    title: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnfinishedRow:
    """A unit that was stopped from outside: its attack, its seed, how."""

    attack: str
    seed: int
    why: str


@dataclass(frozen=True, slots=True)
class AttackReport(ReportHead):
    """What was attacked, how often, and what was found.

    ``sources_sha256`` is of the tool's Python sources, ``attack_file_sha256`` of the file of
    attacks and all that it says it rests on.
    """

    sources_sha256: str
    attack_file: str | None
    attack_file_sha256: str | None
    attacks: tuple[RunAttackRow, ...]
    violations: int
    witnesses: tuple[WitnessRow, ...]
    unfinished: tuple[UnfinishedRow, ...]

    @property
    def passed(self) -> bool:
        """True if every unit was finished, and none contradicts the tool."""
        return not self.violations and not self.unfinished


def attack_lines(report: AttackReport) -> Iterator[str]:
    """Yields the report as text, a paragraph an attack."""
    for attack in report.attacks:
        seeds = f"seeds {attack.first_seed} to {attack.first_seed + attack.units - 1}"
        yield (
            f"{attack.name:<12}  {seeds if attack.units else 'no unit'}: {attack.cases:,} cases, "
            f"{attack.runs:,} runs, {attack.violations:,} violations"
        )
        for control in attack.controls:
            times = f"{control.exceeded:,} of {control.checked:,} times"
            yield f"{'':<12}  seen to be false, {times}: {control.what}"
    cases, runs = sum(row.cases for row in report.attacks), sum(row.runs for row in report.attacks)
    yield f"{'together':<12}  {cases:,} cases, {runs:,} runs, {report.violations:,} violations"
    for unfinished in report.unfinished:
        yield f"not finished: {unfinished.attack}, seed {unfinished.seed}: {unfinished.why}"
