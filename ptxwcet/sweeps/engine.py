"""Units of work on all cores, or on a cluster: Dask distributes batches, this module units.

Only the caller's process receives results and writes them. The result of a unit does not depend on
its worker or time, so neither do the tables of all results in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

from ptxwcet.opened.inputs import describe_here
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.sweeps.cell import Ending, Limits, Result, Unit, close_cells, run_units

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 5.0
"""How long a scheduler that does not answer is waited for, and one without workers at first."""
WORKER_SECONDS = 30.0
"""How long a scheduler without workers is waited for."""
ANSWER_SECONDS = 30.0
"""How long a scheduler may take to answer a small question, or to hand over a result."""
BATCH_SECONDS = 1.0
"""The intended length of a batch: far above its overhead, and short enough to lose."""
THREADS_A_SECOND = 100
"""With more threads than these, batches take longer in proportion: so many end in a second."""
MOST_BATCH = 1000
_BATCHES_A_THREAD = 2
_TICK_SECONDS = 0.5
_SETTINGS = {
    "distributed.admin.log-format": "%(message)s",
    # batches carry files of megabytes: no warning is needed
    "distributed.admin.large-graph-warning-threshold": "1 TiB",
}
_BROKEN = (Exception, asyncio.CancelledError)
"""The exceptions of a client whose scheduler is lost, or whose call was then cancelled."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where batches are worked on: the client of a Dask scheduler, called ``name`` in messages."""

    client: Client
    name: str

    def threads(self) -> int:
        """Returns the number of units that can run at once; 0 without workers or scheduler.

        Raises PtxwcetError (PW822) if it does not answer.
        """
        try:
            ask = self.client.scheduler.ncores
            told = self.client.sync(ask, workers=None, callback_timeout=ANSWER_SECONDS)
            return sum(told.values())
        except TimeoutError:
            raise _gone(f"the scheduler at {self.name} does not answer any more") from None
        except _BROKEN:
            return 0


def chosen_cluster(workers: int | str | None) -> contextlib.AbstractContextManager[Cluster]:
    """Returns the cluster of the scheduler at an address, else this computer with ``workers``.

    None: one for each core.
    """
    if isinstance(workers, str):
        return connected_cluster(workers)
    return embedded_cluster(workers or os.cpu_count() or 1)


@contextlib.contextmanager
def embedded_cluster(workers: int) -> Iterator[Cluster]:
    """Starts scheduler and workers in this process, with ``workers`` units in child processes."""
    import dask
    from distributed import Client, LocalCluster

    # Dask serves pages of its own, by default to the whole network.
    own_pages = "127.0.0.1:0"
    settings = {
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        **_SETTINGS,
    }
    with _quiet(), dask.config.set(settings):
        local = LocalCluster(
            n_workers=1,
            threads_per_worker=workers,
            processes=False,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": own_pages},
            worker_dashboard_address=own_pages,
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
        with local, Client(local, set_as_default=False) as client:
            try:
                yield Cluster(client, "this computer")
            finally:
                close_cells()


@contextlib.contextmanager
def connected_cluster(address: str) -> Iterator[Cluster]:
    """Connects to a running Dask scheduler and its workers, all of this version of ptxwcet.

    Raises PtxwcetError: PW820 (no answer), PW821 (workers with another version), PW822 (there are
    no workers).
    """
    import dask
    import distributed  # noqa: F401  its loggers are there now

    with _quiet(), dask.config.set(_SETTINGS):
        client = _connected(address)
        with client:
            cluster = Cluster(client, address)
            _await_workers(cluster)
            _require_alike(cluster)
            yield cluster


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the log of Dask and its libraries meanwhile: the caller reports what matters."""
    names = ("distributed", "tornado", "asyncio")
    loggers = [
        logging.getLogger(name)
        for name in [*names, *logging.root.manager.loggerDict]
        if name.partition(".")[0] in names
    ]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _connected(address: str) -> Client:
    """Returns a client of the scheduler. Raises PtxwcetError (PW820)."""
    from distributed import Client

    try:
        asyncio.run(_ask_who(address))
        return Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except _BROKEN as error:  # an answer of another program may raise anything
        reason = str(error).split("\n")[0] or "it takes the call, and says nothing"
        raise PtxwcetError(
            Diagnostic(
                "PW820",
                f"no scheduler answers at {address!r}: {reason}",
                help="start one with 'dask scheduler', and workers with 'dask worker ADDRESS "
                "--nthreads 1'; without its address the cores of this computer do the work",
            )
        ) from None


async def _ask_who(address: str) -> None:
    """Exchanges a message with the scheduler: another program may accept it and never answer."""
    from distributed.core import connect
    from distributed.security import Security

    settings = Security().get_connection_args("client")
    async with asyncio.timeout(CONNECT_SECONDS):
        comm = await connect(address, timeout=CONNECT_SECONDS - 1, **settings)
        try:
            await comm.write({"op": "identity", "reply": True})
            await comm.read()
        finally:
            comm.abort()


def run_campaign(
    work: str, units: Iterator[Unit], cluster: Cluster, limits: Limits
) -> Generator[Result | None, None, None]:
    """Yields the result of each unit, in the order in which they end; None at times, as a tick.

    ``work`` is ``module:function``, called with the unit's payload and shared contents. Units are
    taken from the iterator when workers are free. Raises PtxwcetError: PW821, PW822 (scheduler or
    workers are lost; the results so far are complete). Cost here: some milliseconds a batch.
    """
    return _Campaign(work, units, cluster, limits).results()


def results_of(
    work: str,
    units: Iterator[Unit],
    cluster: Callable[[], contextlib.AbstractContextManager[Cluster]],
    limits: Limits,
) -> Generator[Result | None, None, None]:
    """Runs :func:`run_campaign` on a cluster that is only started if there is a unit."""
    first = list(itertools.islice(units, 1))
    if first:
        with cluster() as started:
            campaign = run_campaign(work, itertools.chain(first, units), started, limits)
            # Closed here: during an exception, the cluster would otherwise be closed first.
            with contextlib.closing(campaign) as results:
                yield from results


class _Campaign:
    """One run: the units in progress, and the size of batches."""

    def __init__(self, work: str, units: Iterator[Unit], cluster: Cluster, limits: Limits) -> None:
        self._work, self._units, self._cluster, self._limits = work, units, cluster, limits
        self._under_way: dict[Future, list[Unit]] = {}
        self._again: list[Unit] = []  # units whose worker died: one per batch now
        self._left: deque[Unit] = deque()  # units left over by batches out of time
        self._ended: Queue[Future] = Queue()
        self._mean_seconds = BATCH_SECONDS
        self._done = 0
        self._without_workers: float | None = None
        self._ask_again, self._known_threads = 0.0, 0
        self._names = itertools.count()
        self._here = json.dumps(dict(describe_here()))

    def results(self) -> Generator[Result | None, None, None]:
        try:
            while True:
                self._fill()
                if not self._under_way:
                    return
                try:
                    future = self._ended.get(timeout=_TICK_SECONDS)
                except Empty:
                    self._require_workers()
                    yield None
                    continue
                yield from self._results_of(future)
        finally:
            with contextlib.suppress(*_BROKEN):  # the scheduler may be lost
                self._cluster.client.cancel(list(self._under_way))

    def _fill(self) -> None:
        threads = self._threads()
        while len(self._under_way) < _BATCHES_A_THREAD * max(threads, 1):
            if self._again:
                batch = [self._again.pop()]
            else:
                size = 1 if self._done < threads else int(self._wanted() / self._mean_seconds)
                units = itertools.chain(self._pop_left(), self._units)
                batch = list(itertools.islice(units, min(max(size, 1), MOST_BATCH)))
            if not batch:
                return
            self._submit(batch)

    def _submit(self, batch: list[Unit]) -> None:
        shared = {name: data for unit in batch for name, data in unit.shared.items()}
        told = [(unit.number, unit.payload, list(unit.shared)) for unit in batch]
        name = f"ptxwcet-{next(self._names)}-{time.time_ns()}"
        head = (self._here, self._work, self._limits.memory_mib, self._limits.seconds)
        try:
            future = self._cluster.client.submit(
                run_batch, head, 2 * self._wanted(), told, shared, key=name, pure=False
            )
        except _BROKEN as error:
            raise self._lost(error) from None
        self._under_way[future] = batch
        future.add_done_callback(self._ended.put)

    def _results_of(self, future: Future) -> Iterator[Result]:
        """Yields the results of a batch that has ended; none if it has to be done again.

        Raises PtxwcetError: PW821, PW822.
        """
        from distributed.scheduler import KilledWorker

        batch = self._under_way.pop(future)
        try:
            told = future.result(timeout=ANSWER_SECONDS)
        except KilledWorker:
            _require_alike(self._cluster)  # an older ptxwcet may die of unknown input
            if len(batch) > 1:
                self._again += reversed(batch)
                return
            why = "each worker that had it died"
            yield Result(batch[0].number, Ending.DIED, None, why)
            return
        except TimeoutError as error:
            # a worker that died after its work, before its result was fetched
            if not self._is_connected() or future.status == "error":
                raise self._lost(error) from None
            self._submit(batch)
            return
        except _BROKEN as error:
            if future.status == "error":
                _require_alike(self._cluster)  # a missing module cannot be called
            raise self._lost(error) from None
        if isinstance(told, dict):
            raise _not_alike(told["address"], json.loads(told["here"]))
        self._without_workers = None
        done = {result.number for result in told}
        self._left += (unit for unit in batch if unit.number not in done)
        for result in told:
            self._done += 1
            weight = max(1 / self._done, 0.05)
            self._mean_seconds += weight * (max(result.seconds, 1e-4) - self._mean_seconds)
            yield result

    def _wanted(self) -> float:
        """Returns the seconds that a batch should take: more of them with many workers."""
        return BATCH_SECONDS * max(1.0, self._known_threads / THREADS_A_SECOND)

    def _pop_left(self) -> Iterator[Unit]:
        while self._left:
            yield self._left.popleft()

    def _threads(self) -> int:
        """Returns the number of units that can run at once, queried at times; 0 without workers."""
        now = time.monotonic()
        if now >= self._ask_again:
            self._ask_again = now + _TICK_SECONDS
            self._known_threads = self._cluster.threads() if self._is_connected() else 0
        return self._known_threads

    def _is_connected(self) -> bool:
        return bool(self._cluster.client.status == "running")

    def _lost(self, error: BaseException | None) -> PtxwcetError:
        # a closed connection may be reported before the client notices it
        is_gone = error is None or isinstance(error, asyncio.CancelledError | OSError)
        is_gone = is_gone or not self._is_connected()
        what = "is gone" if is_gone else f"failed: {type(error).__name__}: {error}"
        return _gone(f"the scheduler at {self._cluster.name} {what}")

    def _require_workers(self) -> None:
        """Raises PtxwcetError (PW822) if there have been no workers for long."""
        if not self._is_connected():
            raise self._lost(None)
        if self._threads():
            self._without_workers = None
            return
        now = time.monotonic()
        if self._without_workers is None:
            self._without_workers = now
        if now - self._without_workers > WORKER_SECONDS:
            raise _gone(f"the scheduler at {self._cluster.name} has no workers any more")


def run_batch(
    head: tuple[str, str, int | None, float | None],
    most_seconds: float,
    told: Sequence[tuple[int, Any, list[str]]],
    shared: Mapping[str, bytes],
) -> list[Result] | dict[str, str]:
    """Runs a batch on a worker; returns its results, or the installation here if it differs.

    After ``most_seconds``, units that have not begun are left to another batch, so that a batch
    that is larger than estimated does not delay others. Raises CellsClosed (this process ends).
    """
    end = time.monotonic() + most_seconds
    here, work, memory_mib, seconds = head
    mine = dict(describe_here())
    if json.loads(here) != mine:
        from distributed import get_worker

        return {"address": get_worker().address, "here": json.dumps(mine)}
    units = [
        Unit(number, payload, {name: shared[name] for name in names})
        for number, payload, names in told
    ]
    results = []
    for result in run_units(work, units, Limits(memory_mib, seconds)):
        results.append(result)
        if time.monotonic() > end:
            break
    return results


def _await_workers(cluster: Cluster) -> None:
    end = time.monotonic() + CONNECT_SECONDS
    while not cluster.threads():
        if time.monotonic() > end:
            raise _gone(f"the scheduler at {cluster.name} has no workers", started=False)
        time.sleep(0.1)


def _require_alike(cluster: Cluster) -> None:
    """Raises PtxwcetError (PW821) for a worker whose answers may be others."""

    # not a function of a module: it is sent as code, and runs where ptxwcet is older or missing
    def describe() -> dict[str, str]:
        try:
            from ptxwcet.opened.inputs import describe_here as there

            return dict(there())
        except ImportError:
            try:
                from ptxwcet.support.version import VERSION
            except ImportError:
                return {"ptxwcet": "not installed"}
            return {"ptxwcet": VERSION}

    try:
        asked = cluster.client.run(describe, on_error="return", callback_timeout=ANSWER_SECONDS)
    except _BROKEN as error:
        what = f"the workers at {cluster.name} do not answer: {type(error).__name__}: {error}"
        raise _gone(what) from None
    for address, told in asked.items():
        if isinstance(told, OSError):  # a worker that has just died
            continue
        if isinstance(told, Exception):
            told = {"ptxwcet": f"unknown ({type(told).__name__}: {told})"}
        if told != dict(describe_here()):
            raise _not_alike(address, told)


def _not_alike(address: str, there: Mapping[str, str]) -> PtxwcetError:
    here = describe_here()
    differing = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    if "ptxwcet" in differing:
        differing = ["ptxwcet"]
    listed = "; ".join(
        f"{name} {_short(there.get(name))} there, {_short(here.get(name))} here"
        for name in differing
    )
    return PtxwcetError(
        Diagnostic(
            "PW821",
            f"the worker at {address} has another installation: {listed}",
            help="install the same ptxwcet on all workers: answers of different versions do not "
            "belong in one table",
        )
    )


def _short(text: str | None) -> str:
    """Returns a version, or the beginning of a digest."""
    return "none" if text is None else text if len(text) < 64 else text[:12]


def _gone(message: str, *, started: bool = True) -> PtxwcetError:
    remedy = (
        "what was done is kept: the same command with --resume goes on from there"
        if started
        else "start some: dask worker ADDRESS --nthreads 1"
    )
    return PtxwcetError(Diagnostic("PW822", message, help=remedy))
