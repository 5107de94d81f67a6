"""The least bounds over two columns, a panel for each machine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ptxwcet.sweeps.results.axes import Axes, choose_axes
from ptxwcet.sweeps.results.results_table import Column, Integers, Mask, ResultsTable
from ptxwcet.sweeps.results.sweep_model import MapPanel, Scope, SweepMap, Value

Kind = tuple[Scope, str, str | None]
"""Bounds that can be compared: their scope, their guarantee, the one policy they hold for."""


def build_map(
    table: ResultsTable,
    axes: Axes,
    kinds: Mapping[str, Kind],
    x: str | None,
    y: str | None,
    most: int,
) -> tuple[SweepMap | None, str]:
    """The map over ``x`` and ``y`` (axes.choose_axes), or None and why there is none.

    ``kinds`` are the bounds of each machine that are drawn. Raises
    :class:`ptxwcet.sweeps.results.axes.NotAnAxis`. Cost: linear in the rows for each machine.
    """
    chosen = choose_axes(table, axes, x, y, most)
    if chosen is None:
        return None, f"a map needs two columns with 2 to {most} values each"
    across, down = (table.columns[name] for name in chosen)
    x_values, y_values = _values(across), _values(down)
    shape = (len(y_values), len(x_values))
    # no value is the last column or row
    cells = (down.codes % shape[0]).astype(np.int64) * shape[1] + across.codes % shape[1]
    machines = table.columns["machine"]
    panels = tuple(
        _panel(table, str(name), machines.rows_with(name), kinds.get(str(name)), cells, shape)
        for name in machines.values
    )
    return SweepMap(*chosen, x_values, y_values, panels), ""


def _values(column: Column) -> tuple[Value, ...]:
    return (*column.values, None) if (column.codes < 0).any() else column.values


def _panel(
    table: ResultsTable,
    name: str,
    here: Mask,
    kind: Kind | None,
    cells: Integers,
    shape: tuple[int, int],
) -> MapPanel:
    bounded = here & (table.cycles >= 0)
    shown = bounded & False
    if kind is not None:
        shown = bounded & table.columns["of"].rows_with(kind[0])
        shown &= table.columns["guarantee"].rows_with(kind[1])
        shown &= rows_of_policy(table, kind[2])
    least = np.full(shape[0] * shape[1], np.inf)
    np.minimum.at(least, cells[shown], table.seconds[shown])
    seconds = tuple(
        tuple(None if np.isinf(one) else float(one) for one in line)
        for line in least.reshape(shape)
    )
    units, other = (_counts(cells[mask], shape) for mask in (here, bounded & ~shown))
    scope, guarantee, policy = kind or (None, None, None)
    return MapPanel(name, scope, guarantee, policy, seconds, units, other)


def rows_of_policy(table: ResultsTable, policy: str | None) -> Mask:
    """The rows that hold for one policy alone, None: those that hold for every scheduler."""
    policies = table.columns["policy"]
    return policies.codes < 0 if policy is None else policies.rows_with(policy)


def _counts(cells: Integers, shape: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
    counts: NDArray[np.int64] = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    return tuple(tuple(map(int, line)) for line in counts)
