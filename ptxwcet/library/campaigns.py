"""``ptxwcet.sweep``: the bounds of many variants as a table."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ptxwcet.library.arguments import checked
from ptxwcet.support.extras import require_extra
from ptxwcet.sweeps.engine import chosen_cluster
from ptxwcet.sweeps.sweep_plan import read_sweep_plan
from ptxwcet.sweeps.sweep_run import run_sweep
from ptxwcet.sweeps.tables import PARQUET

if TYPE_CHECKING:
    import pandas

    from ptxwcet.library.functions import File


@checked
def sweep(
    plan: File = "sweep.toml",
    *,
    output: File | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    resume: bool = False,
    cache: File | None = None,
) -> pandas.DataFrame:
    """The bound of every unit of a plan, as ``ptxwcet sweep`` finds it: a row a unit.

    The columns are those of ``results.parquet`` (docs/sweeps.md). ``output`` is the folder that
    keeps the answers and the tables, which ``resume`` goes on with; without one nothing is kept.
    ``workers`` units are analysed at once (one a core), or as many as the workers of a Dask
    ``scheduler`` can; the rows do not depend on it. ``cache`` is a folder of answers that several
    plans and checks share. Raises PtxwcetError for a plan with mistakes, a cluster that is not
    there or is lost; a unit without a bound is a row. Cost: that of a bound for each row.

    Examples:
        >>> import ptxwcet
        >>> variants = ptxwcet.sweep("samples/sweep.toml")
        >>> of_saxpy = variants[(variants.kernel == "saxpy") & (variants.n == 1_024_000)]
        >>> ranked = of_saxpy.dropna(subset="seconds").sort_values("seconds")
        >>> ranked[["machine", "threads", "cycles"]].head(1).values.tolist()
        [['titan-v', 512, 49660]]
    """
    if workers is not None and scheduler is not None:
        raise TypeError("sweep(): workers= is of this computer: leave it out with scheduler=")
    if resume and output is None:
        raise TypeError("sweep(): resume=True goes on in a folder: say output=, too")
    require_extra("sweep", "ptxwcet.sweep")
    import pandas

    read = read_sweep_plan(os.fspath(plan))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "sweep" if output is None else Path(output)
        run_sweep(
            read,
            folder,
            lambda: chosen_cluster(workers if scheduler is None else scheduler),
            resume=resume,
            cache=None if cache is None else Path(cache),
        )
        # whole numbers stay whole where some are missing
        return pandas.read_parquet(folder / PARQUET, dtype_backend="numpy_nullable")
