"""Attacks: searches for contradictions of the tool, each unit a function of its seed only.

An attack makes random cases, and compares the tool's answers with runs, searches and executions.
The package's attacks are :data:`ATTACKS`; a file may have more, whose oracles share nothing with
the tool: Python that defines ``ATTACKS``, imported by the caller and by the workers. ``SOURCES`` in
it names files and folders next to it that it depends on: if one changes, units are attacked again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.toml_places import nearest
from ptxwcet.validate.attack import attack as check_blocks
from ptxwcet.validate.checks import Bounds

_NAMES = frozenset(("ATTACKS", "SOURCES"))
"""The names that are read from a file; other names are its own, unless misspelt."""
WORK = "ptxwcet.sweeps.attacks:attack_unit"
BLOCKS, GRIDS, KERNELS = 100, 100, 4
"""Cases of a unit: about half a second on one core, of kernels a second."""
_SHRINKING_SECONDS = 60.0  # never reached: cases are small


@dataclass(frozen=True, slots=True)
class Witness:
    """A contradiction of the tool: ``kind`` in a word or two, ``title`` in a sentence.

    ``lines`` are sufficient to reproduce it; ``ptx`` is the shrunk kernel, if it is one.
    """

    kind: str
    title: str
    lines: tuple[str, ...] = ()
    ptx: str = ""


@dataclass(slots=True)
class Seen:
    """The counts of a unit, which add up over units.

    ``violations`` are the cases that contradict the tool; ``witnesses`` show one or a few of them.
    ``controls`` are false statements, by name, with the numbers of their checks and contradictions:
    an attack that contradicts none of them detects nothing.
    """

    cases: int = 0
    runs: int = 0
    violations: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    controls: dict[str, tuple[int, int]] = field(default_factory=dict)
    witnesses: list[Witness] = field(default_factory=list)

    def control(self, name: str, checked: int, contradicted: int) -> None:
        """Adds to the numbers of a false statement."""
        before = self.controls.get(name, (0, 0))
        self.controls[name] = (before[0] + checked, before[1] + contradicted)

    def add(self, other: Seen) -> None:
        """Adds the numbers of another unit, without its witnesses."""
        self.cases += other.cases
        self.runs += other.runs
        self.violations += other.violations
        self.counts.update(other.counts)
        for name, numbers in other.controls.items():
            self.control(name, *numbers)


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack: its name, its subject in a sentence, and the function of its units.

    The result of ``unit`` may depend on the seed only, not on earlier work in its process.
    """

    name: str
    attacked: str
    unit: Callable[[int], Seen]


def attack_blocks(seed: int, bounds: Bounds | None = None) -> Seen:
    """Checks random blocks of all families against all schedules, policies and an adversary."""
    # imported here: the compiled code is loaded only for simulations
    from ptxwcet.validate.witness import find_witness

    tallies, violating = check_blocks(1, range(seed * BLOCKS, (seed + 1) * BLOCKS), bounds)
    seen = Seen()
    for tally in tallies.values():
        seen.cases += tally.cases
        seen.runs += tally.runs
        seen.counts.update(tally.checks)
        seen.counts["searched exhaustively"] += tally.searched
        # blocks of one kind of run: other kinds show some of the same blocks
        exceeded = max(tally.gub_exceeded.values(), default=0)
        seen.control("GUB, as published", tally.gub_known, exceeded)
    seen.violations = len(violating)
    for case, plan, violation in violating[:1]:
        witness = find_witness(case, violation, plan, bounds, seconds=_SHRINKING_SECONDS)
        title = str(witness.violation)
        seen.witnesses.append(Witness(violation.check.value, title, tuple(witness.lines())))
    return seen


def attack_grids(seed: int, bounds: Bounds | None = None) -> Seen:
    """Checks random grids of blocks, run whole on several SMs, against the bound of a launch."""
    from ptxwcet.validate.grids import attack_grids as check_grids
    from ptxwcet.validate.grids import shrunk

    tally = check_grids(1, range(seed * GRIDS, (seed + 1) * GRIDS), bounds)
    seen = Seen(tally.grids, tally.runs, len(tally.violations))
    seen.counts["runs as long as the bound"] = tally.reached
    seen.control("the bound without its tail", tally.tails, tally.tails_needed)
    for violation in tally.violations[:1]:
        small = shrunk(violation, bounds)
        seen.witnesses.append(Witness("grid bound", str(small), tuple(small.lines())))
    return seen


def attack_paths(seed: int) -> Seen:
    """Checks random kernels that branch on data, executed on adversarial data."""
    from ptxwcet.validate.path_selftest import attack_random_kernels

    seen = Seen()
    for number, attacked in enumerate(attack_random_kernels(seed, KERNELS)):
        seen.cases += 1
        seen.runs += attacked.runs
        seen.counts["bounded" if attacked.bounded else "refused"] += 1
        seen.counts["warp-instructions of longest runs"] += attacked.longest
        if attacked.diagnostics:
            seen.violations += 1
            first = attacked.diagnostics[0]
            title = f"kernel {number}: {first.message}"
            lines = tuple(str(diagnostic.message) for diagnostic in attacked.diagnostics)
            seen.witnesses.append(Witness(first.code, title, lines, attacked.shrunk()))
    return seen


ATTACKS = (
    Attack(
        "blocks",
        "safe, lower and scheduled bounds of random blocks, against all schedules of small ones, "
        "runs under every policy, shortened timings and an adversary",
        attack_blocks,
    ),
    Attack(
        "grids",
        "the bound of a launch of random grids, against runs on several SMs under six policies",
        attack_grids,
    ),
    Attack(
        "paths",
        "paths and bounds of random kernels, against executions on adversarial data",
        attack_paths,
    ),
)
"""The attacks of the tool."""


def seen_to_json(seen: Seen) -> dict[str, Any]:
    """Returns the counts as plain data, without the witnesses."""
    return {
        "cases": seen.cases,
        "runs": seen.runs,
        "violations": seen.violations,
        "counts": dict(sorted(seen.counts.items())),
        "controls": {name: list(seen.controls[name]) for name in sorted(seen.controls)},
    }


def seen_from_json(data: Mapping[str, Any]) -> Seen:
    """Returns the counts that :func:`seen_to_json` wrote."""
    controls = {name: (checked, broken) for name, (checked, broken) in data["controls"].items()}
    counts = Counter(data["counts"])
    return Seen(data["cases"], data["runs"], data["violations"], counts, controls)


# --- files of attacks -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttackFile:
    """A file of attacks: its path, the digest of it and its sources, its attacks."""

    path: Path
    sha256: str
    attacks: tuple[Attack, ...]


def read_attack_file(path: Path) -> AttackFile:
    """Reads the attacks of a file. Raises PtxwcetError (PW831). Cost: runs it, hashes sources."""
    path = path.absolute()
    module = _module(path)
    for name in vars(module).keys() - _NAMES:
        if name.isupper() and (meant := nearest(name, _NAMES)):
            raise _unusable(path, f"it defines {name}: {meant.strip()}")
    attacks = getattr(module, "ATTACKS", None)
    if not isinstance(attacks, tuple | list) or not attacks:
        raise _unusable(path, "it defines no ATTACKS")
    strange = [attack for attack in attacks if not isinstance(attack, Attack)]
    if strange:
        what = type(strange[0]).__name__
        raise _unusable(path, f"ATTACKS holds a {what}: it is a tuple of Attack")
    names = Counter(attack.name for attack in (*ATTACKS, *attacks))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise _unusable(path, f"two attacks are called '{twice[0]}'")
    return AttackFile(path, _digest(path, getattr(module, "SOURCES", ())), tuple(attacks))


def attack_unit(payload: Mapping[str, Any], _: Mapping[str, bytes]) -> dict[str, Any]:
    """Returns the results of a seed's unit as plain data; ``other``: the problem of the file."""
    file = payload["file"]
    try:
        attacks = ATTACKS if file is None else _attacks_of(Path(file), payload["file_sha256"])
    except PtxwcetError as error:
        return {"other": str(error.diagnostics[0].message)}
    (attack,) = (attack for attack in attacks if attack.name == payload["attack"])
    seen: Seen = attack.unit(payload["seed"])
    return {
        "seen": seen_to_json(seen),
        "witnesses": [asdict(witness) for witness in seen.witnesses],
    }


@cache
def _attacks_of(path: Path, sha256: str) -> tuple[Attack, ...]:
    file = read_attack_file(path)
    if file.sha256 != sha256:
        raise _unusable(path, "it or its sources are others here, or have changed")
    return (*ATTACKS, *file.attacks)


def _module(path: Path) -> ModuleType:
    name = f"_ptxwcet_attacks_{hashlib.sha256(bytes(path)).hexdigest()[:12]}"
    try:
        text = path.read_bytes()
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    spec = importlib.util.spec_from_loader(name, loader=None, origin=str(path))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[name] = module  # its dataclasses look it up
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # the file may raise anything
        del sys.modules[name]
        raise _unusable(path, f"{type(error).__name__}: {error}") from None
    return module


def _digest(path: Path, sources: object) -> str:
    """Returns the SHA-256 of a file and of its sources, names and contents."""
    whole = hashlib.sha256(path.read_bytes())
    if not isinstance(sources, tuple | list) or not all(isinstance(one, str) for one in sources):
        raise _unusable(path, "SOURCES is a tuple of names of files and folders")
    for source in sources:
        place = path.parent / source
        if not place.exists():
            raise _unusable(path, f"its source '{source}' is not there")
        for file in _files(place):
            name = f"{source}/{file.relative_to(place).as_posix()}"
            whole.update(f"\n{name} {hashlib.sha256(file.read_bytes()).hexdigest()}".encode())
    return whole.hexdigest()


def _files(place: Path) -> Iterator[Path]:
    """Yields a file, or all of a folder but hidden and compiled ones, in order."""
    if place.is_file():
        yield place
        return
    for one in sorted(place.rglob("*")):
        parts = one.relative_to(place).parts
        if one.is_file() and not any(p.startswith((".", "__pycache__")) for p in parts):
            yield one


def _unusable(path: Path, why: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW831",
            f"cannot use attacks of '{path.name}': {why}",
            help="docs/guide/attack.md shows such a file",
        )
    )
