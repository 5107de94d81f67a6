"""Reading the results of a sweep: ``results.parquet`` or ``results.csv``."""

from __future__ import annotations

import hashlib

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_DATA_BYTES, read_bytes
from ptxwcet.sweeps.results.csv_reader import read_csv
from ptxwcet.sweeps.results.results_table import NotResults, ResultsTable, checked_table

_FIRST_BYTES_OF_PARQUET = b"PAR1"


def read_results(path: str) -> ResultsTable:
    """The results in a file, Parquet or CSV: its first bytes tell which.

    Raises PtxwcetError: PW824 if the file cannot be read, is another file, or is malformed; PW235
    if it is Parquet and the extra that reads it is not installed. Cost: linear in the file; of
    processor time about 20 s for a million rows of CSV, 2 s for Parquet.
    """
    try:
        data = read_bytes(path, MOST_DATA_BYTES)
    except OSError as error:
        raise _refused(f"cannot read '{path}': {error.strerror or error}") from None
    try:
        if data.startswith(_FIRST_BYTES_OF_PARQUET):
            # here: an extra, which only this kind of file needs
            from ptxwcet.sweeps.results.parquet_reader import read_parquet

            raw = read_parquet(data)
        else:
            raw = read_csv(data)
        return checked_table(path, hashlib.sha256(data).hexdigest(), raw)
    except NotResults as error:
        raise _refused(f"'{path}' is no result of a sweep: {error}") from None


def _refused(message: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic("PW824", message, help="give the results.parquet or results.csv of a sweep")
    )
