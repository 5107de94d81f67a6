"""Pictures of matplotlib: as bytes, equal for equal figures, and as files of a folder."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.printable import printable_picture
from ptxwcet.support.whole_files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture_bytes(
    figure: Figure, form: str, *, dpi: int = 110, transparent: bool = False, **settings: Any
) -> bytes:
    """Returns a figure as ``svg``, its text as text, or ``png``; ``settings`` are matplotlib's."""
    # imported here: only pictures need matplotlib
    from matplotlib import rc_context

    sink = io.BytesIO()
    metadata: dict[str, str | None] = {"Date": None} if form == "svg" else {"Software": None}
    own: dict[Any, Any] = {"svg.hashsalt": "ptxwcet", "svg.fonttype": "none", **settings}
    with rc_context(own), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter of a name that the font does not have
        figure.savefig(sink, format=form, dpi=dpi, metadata=metadata, transparent=transparent)
    data = sink.getvalue()
    return printable_picture(data.decode()).encode() if form == "svg" else data


def file_name(text: str) -> str:
    """Returns a text without the characters that names of files should not have."""
    return "".join(one if one.isalnum() or one in "-_." else "_" for one in text)


def write_pictures(pictures: Iterable[tuple[str, str, Callable[[str], bytes]]], path: Path) -> None:
    """Writes pictures, whose names begin with the path's. Raises PtxwcetError (PW709).

    Each has its name, an alternative if that is taken (``#`` is a number from 2), and its bytes.
    """
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot write into '{folder}': {error.strerror}"
        raise PtxwcetError.of("PW709", message, help="choose another") from None
    taken: set[str] = set()
    for name, otherwise, data in pictures:
        number = 2
        while name.casefold() in taken:  # names that differ in the characters left out
            name = otherwise.replace("#", str(number))
            number += 1
        taken.add(name.casefold())
        form = path.suffix
        write_bytes(folder / f"{path.stem}-{name}{form}", data(form[1:]), "PW709")
