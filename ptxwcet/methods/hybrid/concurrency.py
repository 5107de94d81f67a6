"""Extends times of one warp to the kernel: release jitter and waves ([B] V-B).

Times of a run count from the first event of any multiprocessor in it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptxwcet.methods.hybrid.slicing import WarpTraces, group_starts
from ptxwcet.support.records import dataclass
from ptxwcet.trace.events import IntColumn


@dataclass(frozen=True, slots=True)
class JitterRow:
    """Release jitter of a multiprocessor's last warp (delta)."""

    multiprocessor: int
    cycles: int


@dataclass(frozen=True, slots=True)
class WaveParameters:
    """The arrival of ``waves`` (Omega) of ``warps_per_wave`` (phi), ``start_gap`` (Delta) apart."""

    waves: int
    warps_per_wave: int
    start_gap: int


@dataclass(frozen=True, slots=True)
class Concurrency:
    """The observations of the runs beyond single warps.

    ``high_water_mark``: the longest time from the first to the last event of a run (HWMT).
    ``release_jitter``: the longest time, over all runs, until the last warp of each begins.
    ``waves`` are the parameters as [B] derives them; ``first_gap`` is the start gap among warps
    that began before any warp of their multiprocessor had ended.
    """

    high_water_mark: int
    release_jitter: tuple[JitterRow, ...]
    waves: WaveParameters
    first_gap: int

    @property
    def worst_jitter(self) -> int:
        """The largest release jitter of a multiprocessor."""
        return max(jitter.cycles for jitter in self.release_jitter)


def observe_concurrency(traces: WarpTraces) -> Concurrency:
    """Returns the high-water mark, release jitter and wave parameters of all runs. Cost: a sort.

    Waves are determined as in [B] Fig. 6, on each multiprocessor in the order of time: a beginning
    of a warp after an end (or at the start) begins a wave; the start gap is taken between
    successive beginnings in one wave.
    """
    begin = np.full(int(traces.run.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(begin, traces.run, traces.begin)
    end = np.zeros(len(begin), np.int64)
    np.maximum.at(end, traces.run, traces.end)
    sms, place = np.unique(traces.sm, return_inverse=True)
    delay = np.zeros(len(sms), np.int64)
    np.maximum.at(delay, place, traces.begin - begin[traces.run])
    jitter = (JitterRow(int(sm), int(d)) for sm, d in zip(sms, delay, strict=True))
    waves, first_gap = _waves(traces)
    return Concurrency(int((end - begin).max()), tuple(jitter), waves, first_gap)


def _waves(traces: WarpTraces) -> tuple[WaveParameters, int]:
    time, is_begin, groups = _begins_and_ends(traces)
    after_begin = np.zeros(len(time), bool)
    after_begin[1:] = is_begin[:-1]  # a multiprocessor's last event is an end
    opens = is_begin & ~after_begin
    same_wave = is_begin & after_begin
    gaps = np.diff(time, prepend=0)[same_wave]
    group_of = np.zeros(len(time), np.int64)
    group_of[groups] = 1
    group_of = np.cumsum(group_of) - 1
    waves = int(np.bincount(group_of[opens]).max())
    wave_of = np.cumsum(opens) - 1
    widest = int(np.bincount(wave_of[is_begin]).max())
    in_first = wave_of == wave_of[groups][group_of]
    first_gaps = np.diff(time, prepend=0)[same_wave & in_first]
    return (
        WaveParameters(waves, widest, int(gaps.max(initial=0))),
        int(first_gaps.max(initial=0)),
    )


def _begins_and_ends(
    traces: WarpTraces,
) -> tuple[IntColumn, npt.NDArray[np.bool_], IntColumn]:
    """Returns first and last events by run, SM and time; the first row of each of these."""
    run, sm = np.tile(traces.run, 2), np.tile(traces.sm, 2)
    time = np.concatenate([traces.begin, traces.end])
    rows = np.concatenate([traces.begin_row, traces.end_row])
    is_begin = np.repeat([True, False], traces.warps)
    order = np.lexsort((rows, time, sm, run))
    return time[order], is_begin[order], group_starts(run[order], sm[order])


def dynamic_estimate(warp_wcet: int, concurrency: Concurrency) -> int:
    """Returns Z_dynamic: an SM's last warp begins at the latest observed time ([B] equation 1)."""
    return warp_wcet + concurrency.worst_jitter


def hybrid_estimate(warp_wcet: int, waves: WaveParameters) -> int:
    """Returns Z_hybrid: successive waves, with warps one start gap apart ([B] equation 2)."""
    return waves.waves * (warp_wcet + (waves.warps_per_wave - 1) * waves.start_gap)


@dataclass(frozen=True, slots=True)
class BlockDelays:
    """The delays of blocks of the traced launch on its ``places``, over all runs.

    ``wait``: the longest time from when a place for a block was free (the start of a run, or the
    end of a block) until the next block began; ``skew``: the longest time between the first and the
    last beginning of warps of one block.
    """

    places: int
    wait: int
    skew: int


def observe_blocks(traces: WarpTraces, warps_per_block: int, places: int) -> BlockDelays:
    """Returns waits and skews on a GPU that holds ``places`` blocks at a time.

    Warps of a block have successive numbers, the first a multiple of ``warps_per_block``. In the
    order of time, the k-th block to begin in a run takes the place of the (k - places)-th to end.
    Cost: a sort of the warps.
    """
    block = traces.warp // warps_per_block
    order = np.lexsort((block, traces.run))
    groups = group_starts(traces.run[order], block[order])
    first = np.minimum.reduceat(traces.begin[order], groups)
    last = np.maximum.reduceat(traces.begin[order], groups)
    end = np.maximum.reduceat(traces.end[order], groups)
    run = traces.run[order][groups]
    wait = 0
    starts = group_starts(run).tolist()
    for begin, stop in zip(starts, [*starts[1:], len(run)], strict=True):
        begun, ended = np.sort(first[begin:stop]), np.sort(end[begin:stop])
        free = np.full(len(begun), begun[0])
        free[places:] = ended[: max(0, len(ended) - places)]
        wait = max(wait, int((begun - free).max()))
    return BlockDelays(places, wait, int((last - first).max()))


def rounds_estimate(warp_wcet: int, rounds: int, delays: BlockDelays) -> int:
    """Returns the time of successive blocks: ``rounds`` times the longest time of a block.

    Covers every run of this many rounds in which no warp takes longer than ``warp_wcet`` and no
    block exceeds the wait and the skew in ``delays`` (docs/methods/hybrid.md).
    """
    return rounds * (delays.wait + delays.skew + warp_wcet)
