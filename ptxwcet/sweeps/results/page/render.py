"""The page about a sweep: one HTML file that loads nothing. What comes from outside is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from ptxwcet.report.page.parts import Made, fill, page_file, themed
from ptxwcet.sweeps.results import sweep_text
from ptxwcet.sweeps.results.bar_pictures import PALETTE
from ptxwcet.sweeps.results.map_picture import SOFT
from ptxwcet.sweeps.results.pictures import Picture
from ptxwcet.sweeps.results.sweep_model import SweepReport

_PACKAGE = "ptxwcet.sweeps.results.page"


def render_sweep_page(report: SweepReport, pictures: Sequence[Picture], made: Made) -> str:
    """The page. Cost: linear in what it shows."""
    # here: an extra, which only pages need
    from markupsafe import Markup

    numbers = count()

    def drawn(picture: Picture) -> str:
        svg = picture.bytes("svg").decode()
        for number, colour in enumerate(PALETTE):  # as parts.themed knows them
            svg = svg.replace(colour, f"#12345{number}")
        return Markup(themed(svg, f"p{next(numbers)}-").replace(SOFT, "var(--soft)"))

    return fill(
        "sweep.html",
        package=_PACKAGE,
        report=report,
        pictures=pictures,
        drawn=drawn,
        made=made,
        style=Markup(page_file("style.css") + page_file("sweep.css", _PACKAGE)),
        say=sweep_text,
        sentence=_sentence,
    )


def _sentence(text: str) -> str:
    """A text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."
