"""Renders the report of pWCET studies as one HTML page with its pictures inside, without loads."""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.methods.pwcet import text
from ptxwcet.methods.pwcet.pictures import Picture
from ptxwcet.methods.pwcet.report import PwcetReport
from ptxwcet.report.page.parts import Made, fill, page_file, themed


def render_pwcet_html(report: PwcetReport, pictures: Sequence[Picture], made: Made) -> str:
    """Returns the page. Labels and file names are escaped."""

    def drawn(picture: Picture, number: int) -> str:
        return themed(picture.bytes("svg").decode("utf-8"), f"{picture.name}{number}-")

    return fill(
        "pwcet.html",
        package="ptxwcet.methods.pwcet",
        report=report,
        pictures=pictures,
        drawn=drawn,
        made=made,
        style=page_file("style.css"),
        say=text,
    )
