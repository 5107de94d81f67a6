"""ptxwcet: static worst-case execution time bounds for GPU thread blocks, from PTX.

>>> import ptxwcet
>>> ptxwcet.bound("samples/saxpy.ptx", block=256, grid=4, params={"n": 1000}).cycles > 0
True
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ptxwcet.support import version

if TYPE_CHECKING:
    from ptxwcet.library.functions import analyse as analyse
    from ptxwcet.library.functions import bound as bound
    from ptxwcet.library.functions import cfg as cfg
    from ptxwcet.library.functions import formula as formula
    from ptxwcet.library.functions import run as run
    from ptxwcet.library.functions import simulate as simulate
    from ptxwcet.library.reports import annotate as annotate
    from ptxwcet.library.reports import check as check
    from ptxwcet.library.reports import compare as compare
    from ptxwcet.library.reports import explain as explain
    from ptxwcet.library.reports import facts as facts
    from ptxwcet.library.reports import memory as memory
    from ptxwcet.library.reports import ports as ports
    from ptxwcet.library.reports import report as report
    from ptxwcet.library.reports import sweep as sweep
    from ptxwcet.library.reports import what_if as what_if
    from ptxwcet.library.results import Analysis as Analysis
    from ptxwcet.library.results import Bound as Bound
    from ptxwcet.library.results import Cfg as Cfg
    from ptxwcet.library.results import Refused as Refused
    from ptxwcet.support.diagnostics import PtxwcetError as PtxwcetError

__version__ = version.VERSION

_NAMES = {
    "library.functions": ("analyse", "bound", "cfg", "formula", "run", "simulate"),
    "library.reports": (
        *("annotate", "check", "compare", "explain", "facts", "memory", "ports"),
        *("report", "sweep", "what_if"),
    ),
    "library.results": ("Analysis", "Bound", "Cfg", "Refused"),
    "support.diagnostics": ("PtxwcetError",),
}
"""The public names, by where they live: imported when they are asked for, so that commands start
fast."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


class _Package(ModuleType):
    """The package: ``ptxwcet.memory`` is the function, also when the folder of that name has been
    imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [*_HOMES]
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ptxwcet.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted((*_HOMES, "__version__"))
