"""Files of attacks: Python that defines ``ATTACKS``, loaded by who asks and by who attacks.

``ptxwcet validate attack FILE.py`` names one. Its code is run. ``SOURCES`` in it names files
and folders beside it that it rests on (its oracles): when one changes, units are attacked again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.toml_places import nearest
from ptxwcet.sweeps.attacks import ATTACKS, Attack, Seen, seen_to_json

_NAMES = frozenset(("ATTACKS", "SOURCES"))
"""What is read of a file; its other names are its own, unless they are these misspelt."""
WORK = "ptxwcet.sweeps.attack_file:attack_unit"


@dataclass(frozen=True, slots=True)
class AttackFile:
    """A file of attacks: where it is, the digest of it and its sources, what it has."""

    path: Path
    sha256: str
    attacks: tuple[Attack, ...]


def read_attack_file(path: Path) -> AttackFile:
    """The attacks of a file. Raises PtxwcetError (PW831). Cost: its code is run, sources hashed."""
    path = path.absolute()
    module = _module(path)
    for name in vars(module).keys() - _NAMES:
        if name.isupper() and (meant := nearest(name, _NAMES)):
            raise _unusable(path, f"it defines {name}: {meant.strip()}")
    attacks = getattr(module, "ATTACKS", None)
    if not isinstance(attacks, tuple | list) or not attacks:
        raise _unusable(path, "it defines no ATTACKS")
    strange = [one for one in attacks if not isinstance(one, Attack)]
    if strange:
        what = type(strange[0]).__name__
        raise _unusable(path, f"ATTACKS holds a {what}: it is a tuple of Attack")
    names = Counter(attack.name for attack in (*ATTACKS, *attacks))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise _unusable(path, f"two attacks are called '{twice[0]}'")
    return AttackFile(path, _digest(path, getattr(module, "SOURCES", ())), tuple(attacks))


def attack_unit(payload: Mapping[str, Any], _: Mapping[str, bytes]) -> dict[str, Any]:
    """What the unit of a seed sees, as plain data; ``other``: what is wrong with the file here."""
    file = payload["file"]
    try:
        attacks = ATTACKS if file is None else _attacks_of(Path(file), payload["file_sha256"])
    except PtxwcetError as error:
        return {"other": str(error.diagnostics[0].message)}
    (attack,) = (one for one in attacks if one.name == payload["attack"])
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
    sys.modules[name] = module  # its dataclasses look for it
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # whatever the file does
        del sys.modules[name]
        raise _unusable(path, f"{type(error).__name__}: {error}") from None
    return module


def _digest(path: Path, sources: object) -> str:
    """The SHA-256 of a file and of what it says it rests on, names and contents."""
    whole = hashlib.sha256(path.read_bytes())
    if not isinstance(sources, tuple | list) or not all(isinstance(one, str) for one in sources):
        raise _unusable(path, "SOURCES is a tuple of names of files and folders")
    for source in sources:
        place = path.parent / source
        if not place.exists():
            raise _unusable(path, f"its source '{source}' is not there")
        for one in _files(place):
            name = f"{source}/{one.relative_to(place).as_posix()}"
            whole.update(f"\n{name} {hashlib.sha256(one.read_bytes()).hexdigest()}".encode())
    return whole.hexdigest()


def _files(place: Path) -> Iterator[Path]:
    """A file, or all of a folder but hidden and compiled ones, in order."""
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
            help="docs/attacks.md shows such a file",
        )
    )
