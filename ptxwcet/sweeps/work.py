"""What a campaign hands from process to process: units of work, limits and results, plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


@dataclass(frozen=True, slots=True)
class Limits:
    """What one unit may take, MiB of memory and seconds, before it is given up; None: any amount.

    Memory is that of the process's data (RLIMIT_DATA), which Linux enforces and other systems may
    not.
    """

    memory_mib: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit: what its work is called with.

    ``shared`` are contents by name, equal names for equal contents: a batch carries each once.
    """

    number: int
    payload: Any
    shared: Mapping[str, bytes]


class Ending(Enum):
    """How a unit ended."""

    DONE = "done"
    RAISED = "raised"  # an exception
    DIED = "died"  # its process did
    MEMORY = "memory"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a unit: ``value`` of its work if that was done, else ``why`` not.

    ``seconds`` are those of the work.
    """

    number: int
    ending: Ending
    value: Any = None
    why: str = ""
    seconds: float = 0.0
