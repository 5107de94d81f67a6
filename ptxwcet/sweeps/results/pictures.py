"""The pictures of a sweep: the map of each machine, its best variants, what is not bounded.

Figures are made without a display and kept as SVG or PNG bytes; the same report gives the same
bytes. The colours are those of the pages, and can be told apart by people who see few of them.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.printable import printable_picture
from ptxwcet.support.whole_files import write_bytes
from ptxwcet.sweeps.results.bar_pictures import draw_best, draw_codes, draw_shares
from ptxwcet.sweeps.results.map_picture import draw_map
from ptxwcet.sweeps.results.sweep_model import SweepReport, scheduler_text
from ptxwcet.sweeps.results.sweep_text import claim_text, scope_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "ptxwcet",
    "svg.fonttype": "none",
    "hatch.linewidth": 0.8,
}


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture: what it is of (``map``, ``best``, ``refused``), a name for files, a caption."""

    kind: str
    name: str
    caption: str
    figure: Figure

    def bytes(self, form: str) -> bytes:
        """The picture as ``svg`` or ``png``."""
        from matplotlib import rc_context

        sink = io.BytesIO()
        metadata: dict[str, str | None] = {"Date": None} if form == "svg" else {"Software": None}
        with rc_context(_SETTINGS), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a letter of a name that the font does not have
            transparent = form == "svg"
            self.figure.savefig(
                sink, format=form, dpi=150, metadata=metadata, transparent=transparent
            )
        data = sink.getvalue()
        return printable_picture(data.decode()).encode() if form == "svg" else data


def draw_pictures(report: SweepReport) -> tuple[Picture, ...]:
    """All pictures of a report. Cost: a second or so, whatever its size."""
    from matplotlib import rc_context

    with rc_context({**_SETTINGS, "font.size": 9}):
        return (*_maps(report), *_bests(report), *_refusals(report))


def write_pictures(pictures: Sequence[Picture], path: Path) -> None:
    """Writes the pictures, whose names begin as the path says. Raises PtxwcetError (PW709)."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot write into '{folder}': {error.strerror}"
        raise PtxwcetError(Diagnostic("PW709", message, help="choose another")) from None
    taken: set[str] = set()
    for picture in pictures:
        name = "".join(one if one.isalnum() or one in "-_." else "_" for one in picture.name)
        number = 2
        while name.casefold() in taken:  # names that differ in the characters left out
            name = f"{picture.kind}-{number}"
            number += 1
        taken.add(name.casefold())
        write_bytes(
            folder / f"{path.stem}-{name}{path.suffix}", picture.bytes(path.suffix[1:]), "PW709"
        )


def _maps(report: SweepReport) -> Iterator[Picture]:
    if report.map is None:
        return
    for panel in report.map.panels:
        if panel.of is not None:
            alone = "" if panel.policy is None else f", {scheduler_text(panel.policy)},"
            what = f"the least bound of {scope_text(panel.of)}{alone}"
            caption = f"{panel.machine}: {what} in each cell"
            yield Picture("map", f"map-{panel.machine}", caption, draw_map(report.map, panel))


def _bests(report: SweepReport) -> Iterator[Picture]:
    for machine in report.machines:
        if machine.rankings:
            kinds = "; ".join(claim_text(ranking) for ranking in machine.rankings)
            caption = f"{machine.machine}: the best variants, {kinds}"
            figure = draw_best(machine, report.varying)
            yield Picture("best", f"best-{machine.machine}", caption, figure)


def _refusals(report: SweepReport) -> Iterator[Picture]:
    if not report.shares:
        return
    yield Picture("refused", "refused", "Units without a bound, by code", draw_codes(report))
    for column in report.shares:
        caption = f"Share of units without a bound, by {column.column}"
        name = f"refused-{column.column}"
        yield Picture("refused", name, caption, draw_shares(report, column))
