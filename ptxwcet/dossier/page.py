"""Renders the dossier as one HTML file that loads nothing and prints well."""

from __future__ import annotations

from ptxwcet.commands.bound import loop_text
from ptxwcet.dossier.report import DossierReport
from ptxwcet.report.page.parts import fill, page_file

_PACKAGE = "ptxwcet.dossier"


def render_dossier(dossier: DossierReport) -> str:
    """Returns the page. Cost: linear in its contents."""
    # Imported here: an extra, which only pages need.
    from markupsafe import Markup

    names = [kernel.readable for kernel in dossier.kernels]
    return fill(
        "dossier.html",
        package=_PACKAGE,
        dossier=dossier,
        loop_text=loop_text,
        title=f"Dossier: {', '.join(names[:3])}{' and more' * (len(names) > 3)}",
        made=dossier.made.replace("T", " ").removesuffix("+00:00"),
        style=Markup(page_file("style.css") + page_file("dossier.css", _PACKAGE)),
    )
