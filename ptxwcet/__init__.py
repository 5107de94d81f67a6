"""ptxwcet: static worst-case execution time bounds for GPU thread blocks, from PTX.

>>> import ptxwcet
>>> ptxwcet.bound("samples/saxpy.ptx", block=256, grid=4, params={"n": 1000}).cycles > 0
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ptxwcet.support import version

if TYPE_CHECKING:
    from ptxwcet.library.functions import accesses as accesses
    from ptxwcet.library.functions import analyse as analyse
    from ptxwcet.library.functions import bound as bound
    from ptxwcet.library.functions import cfg as cfg
    from ptxwcet.library.functions import check as check
    from ptxwcet.library.functions import run as run
    from ptxwcet.library.functions import simulate as simulate
    from ptxwcet.library.functions import sweep as sweep
    from ptxwcet.library.results import Analysis as Analysis
    from ptxwcet.library.results import Bound as Bound
    from ptxwcet.library.results import Cfg as Cfg
    from ptxwcet.library.results import Refused as Refused
    from ptxwcet.support.diagnostics import PtxwcetError as PtxwcetError

__version__ = version.VERSION

_HOMES = {
    **dict.fromkeys(
        ("accesses", "analyse", "bound", "cfg", "check", "run", "simulate", "sweep"),
        "library.functions",
    ),
    **dict.fromkeys(("Analysis", "Bound", "Cfg", "Refused"), "library.results"),
    "PtxwcetError": "support.diagnostics",
}
"""Where public names live: imported when they are asked for, so that commands start fast."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ptxwcet.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
