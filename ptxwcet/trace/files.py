"""Timed traces in files: text (``.csv``) or columns (``.npz``), by the name of the file."""

from __future__ import annotations

import os
from pathlib import Path

from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.input_files import MOST_DATA_BYTES, open_input
from ptxwcet.trace.columns_format import read_columns, write_columns
from ptxwcet.trace.csv_format import read_csv, write_csv
from ptxwcet.trace.events import TimedTrace, check_trace

_ZIP_MARK = b"PK\x03\x04"


def read_trace(path: str | os.PathLike[str]) -> TimedTrace:
    """The trace in a file of either form; its events are within the table and not negative.

    Raises PtxwcetError: PW600 to PW604, PW611. Cost: linear; see the two forms.
    """
    place = Path(path)
    try:
        with open_input(place, MOST_DATA_BYTES) as file:
            mark = file.read(4)
    except OSError as error:
        message = f"cannot read '{place}': {error.strerror or type(error).__name__}"
        raise PtxwcetError.of("PW600", message) from None
    if not mark:
        message = f"'{place}' is empty"
        raise PtxwcetError.of("PW603", message, help="record at least one run")
    trace = read_columns(place) if mark == _ZIP_MARK else read_csv(place)
    check_trace(trace, os.fspath(path))
    return trace


def write_trace(trace: TimedTrace, path: str | os.PathLike[str]) -> None:
    """Writes a trace: columns if the name ends in ``.npz``, text if in ``.csv``.

    Raises PtxwcetError (PW609) for another name, or if the file cannot be written.
    """
    place = Path(path)
    if place.suffix == ".npz":
        write_columns(trace, place)
    elif place.suffix == ".csv":
        write_csv(trace, place)
    else:
        message = f"cannot write '{place}': the name of a trace ends in .csv or .npz"
        raise PtxwcetError.of("PW609", message)
