"""The door of matplotlib for experiments: pictures as PNG bytes, if it is installed."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure  # for the other modules, too

_DOTS_PER_INCH = 110


def can_draw() -> bool:
    """Whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def draw_png(size: tuple[float, float], draw: Callable[[Figure], None]) -> bytes:
    """The picture that ``draw`` makes on an empty figure of ``size`` inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    draw(figure)
    figure.tight_layout()
    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return sink.getvalue()


def set_ticks(axis: Any, ticks: list[float], labels: str | list[str]) -> None:
    """Shows these places of the x axis and no others; ``labels`` may be a format: ``{x:g}x``."""
    if isinstance(labels, str):
        axis.set_xticks(ticks)
        axis.xaxis.set_major_formatter(labels)
    else:
        axis.set_xticks(ticks, labels)
    axis.minorticks_off()


def count_on_x(axis: Any) -> None:
    """Shows whole numbers only on the x axis."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
