"""Data that drive kernels to the ends of their paths: chosen again and again around the best ones.

Values are those at which arithmetic goes wrong and loops run long: 0, 1, -1, small numbers, indices
of the arrays, powers of two and their neighbours, the ends of the type. Random numbers come from
NumPy's ``RandomState``, so that a seed means the same data everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Argument = int | float | bytes | Array

KINDS = ("own", "small", "tiny", "indices", "edges", "ends", "one", "random")
_AGAIN = 0.6  # how often the best data so far are changed, not replaced


class AdversarialData:
    """A search over the arrays of a launch: :meth:`draw` gives data, :meth:`note` says how far a
    run on them went. Scalars and aggregates, which are facts of the launch, stay.
    """

    def __init__(self, arguments: Sequence[Argument], seed: int) -> None:
        self._arguments = tuple(arguments)
        self._random = np.random.RandomState(seed)
        self._best = self._arguments
        self._score = -1
        self._sizes = [one.size for one in self._arguments if isinstance(one, np.ndarray)]

    def draw(self) -> tuple[Argument, ...]:
        """Other data: all arrays anew, or one of the best so far changed. Cost: linear in them."""
        chooser = self._random
        places = [i for i, one in enumerate(self._arguments) if isinstance(one, np.ndarray)]
        if not places:
            return self._arguments
        drawn = list(self._arguments)
        if self._score >= 0 and chooser.random_sample() < _AGAIN:
            drawn = list(self._best)
            places = [places[chooser.randint(len(places))]]
        for place in places:
            own = drawn[place]
            assert isinstance(own, np.ndarray)
            drawn[place] = self._changed(own, whole=len(places) > 1)
        return tuple(drawn)

    def note(self, arguments: tuple[Argument, ...], score: int) -> None:
        """Says how many instructions a run on these data executed."""
        if score > self._score:
            self._best, self._score = arguments, score

    def _changed(self, own: Array, *, whole: bool) -> Array:
        """New content for an array, or for some of its elements."""
        drawn = self._drawn(own)
        if whole or self._random.random_sample() < 0.5:
            return drawn
        kept = self._random.random_sample(own.shape) < 0.75
        return np.where(kept, own, drawn)

    def _drawn(self, own: Array) -> Array:
        chooser = self._random
        kind = KINDS[chooser.randint(len(KINDS))]
        if kind == "own":
            return own.copy()
        if own.dtype.kind == "f":
            return self._chosen([0.0, 1.0, -1.0, 0.5, 2.0, 100.0, -1e-3, 1e4], own)
        bits = 8 * own.dtype.itemsize
        raw: Array
        if kind == "small":
            raw = np.asarray(chooser.randint(0, 48, own.shape))
        elif kind == "tiny":
            return self._chosen([0, 0, 1, 1, 2, 3, -1, 7, 8, 15, 16], own)
        elif kind == "indices":
            raw = np.asarray(chooser.randint(0, max(min(self._sizes), 1), own.shape))
        elif kind == "edges":
            return self._chosen([(1 << i) + j for i in range(bits - 1) for j in (-1, 0, 1)], own)
        elif kind == "ends":
            top = (1 << (bits - 1)) - 1
            return self._chosen([end - i for end in (top, -1) for i in range(8)], own)
        elif kind == "one":
            raw = np.full(own.shape, chooser.randint(0, 64), np.int64)
        else:
            raw = np.frombuffer(chooser.bytes(8 * own.size), np.int64).reshape(own.shape)
        changed: Array = raw.astype(own.dtype)  # modulo the width of the type
        return changed

    def _chosen(self, values: Sequence[float], own: Array) -> Array:
        """One of the values for each element of an array."""
        places = np.asarray(self._random.randint(0, len(values), own.shape))
        chosen: Array = np.asarray(values)[places].astype(own.dtype)
        return chosen
