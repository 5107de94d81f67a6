"""Runs a grid: builds the arrays, runs the compiled loop in pieces, orders the events."""

from __future__ import annotations

import numpy as np

from ptxwcet.simulator.grid import (
    BlockRuns,
    GridOptions,
    GridRun,
    GridShape,
    GridWorkload,
)
from ptxwcet.simulator.grid_stepping import (
    BLOCK,
    DEADLOCK,
    EMPTY,
    FINISHED,
    FIXED,
    FREE,
    FULL,
    IN_SLOT,
    ISSUED,
    NEXT_BLOCK,
    ON_SM,
    PAUSED,
    RECORD_COLUMNS,
    RUN_CELLS,
    SLOT_COLUMNS,
    SM_FIXED,
    STARTED,
    WRITTEN,
    Columns,
    GridLayout,
    GridState,
    run_grid,
)
from ptxwcet.simulator.image import ROOM, GridImage, build_grid_image, goes_on_behind, more_room
from ptxwcet.simulator.parts import (
    BARRIER_COLUMNS,
    COUNTS,
    ENDED,
    ITEM_COLUMNS,
    KIND,
    NEVER,
    PHASE,
    RUNNING,
    STAGE_COLUMNS,
    Behind,
    RegisterColumns,
)
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_PIECE = 2_000_000
"""Instructions between two reports of progress: about a tenth of a second."""


def simulate_grid(workload: GridWorkload, shape: GridShape, options: GridOptions) -> GridRun:
    """Runs all blocks of a grid and records every visit of a basic block.

    Raises PtxwcetError PW532 for a deadlock at barriers, PW690 for more events than
    ``options.most_events``, before anything is run. Cost: about a scan over the warps of an SM for
    each issued instruction, and sorting the events; memory about 60 bytes per event.
    """
    image = build_grid_image(workload, shape.sm)
    require_room(image.events, options.most_events)
    # Blocks are dealt out in turn while no SM is full, so more slots would stay empty.
    slots = min(shape.resident_blocks, -(-workload.block_count // shape.sms))
    layout = _lay_out(image, shape, options, workload)
    columns = Columns(
        np.empty(image.events, np.int32),
        np.empty(image.events, np.int32),
        np.empty(image.events, np.int64),
        np.empty(image.events, np.int64),
    )
    room = ROOM if layout.served else 1
    state = _fresh(image, shape, layout, columns, slots, room)
    while (status := _run(image, state, options)) == FULL:
        room = more_room(room)
        state = _fresh(image, shape, layout, columns, slots, room)
    if status == DEADLOCK:
        raise _deadlock(image, state, workload.warps_per_block)
    assert state.run[WRITTEN] == image.events, "every visit was written"
    order = np.argsort(columns.cycle * shape.sms + columns.sm, kind="stable")
    record = state.records
    blocks = BlockRuns(
        *(record[:, column].copy() for column in (ON_SM, IN_SLOT, STARTED, FINISHED))
    )
    return GridRun(
        columns.point[order],
        columns.sm[order],
        columns.warp[order],
        columns.cycle[order],
        blocks,
        int(state.run[ISSUED]),
    )


def _run(image: GridImage, state: GridState, options: GridOptions) -> int:
    """Runs from a fresh state on; returns the status at the end."""
    while (status := run_grid(image.program, state, _PIECE)) == PAUSED:
        if options.progress is not None:
            resident = int((state.slots[:, :, BLOCK] != EMPTY).sum())
            ended = int(state.run[NEXT_BLOCK]) - resident
            blocks = len(image.program.chosen)
            options.progress(ended, blocks, int(state.run[ISSUED]))
    return status


def _fresh(
    image: GridImage,
    shape: GridShape,
    layout: GridLayout,
    columns: Columns,
    slots: int,
    room: int,
) -> GridState:
    """Returns a state, with ``room`` for the waiting items of each place after the units."""
    warps = layout.warps
    width = (layout.at.by if layout.served else layout.at.ready) + image.register_count
    barriers = len(image.barrier_names) * BARRIER_COLUMNS
    counts = bool(np.any(image.program.code[:, KIND] == COUNTS))
    places = shape.sms + 1 + counts * shape.sms
    cores, queues = shape.sm.schedulers, len(image.program.servers)
    most_servers = int(image.program.servers.max())
    sms = np.zeros((shape.sms, SM_FIXED + 2 * cores + queues * most_servers), np.int64)
    sms[:, FREE] = slots
    sms[:, SM_FIXED : SM_FIXED + 2 * cores] = -1
    state = GridState(
        np.full((shape.sms, slots * warps), NEVER, np.int64),
        np.zeros((shape.sms, slots * warps, width), np.int64),
        np.full((shape.sms, slots, SLOT_COLUMNS + barriers), NEVER, np.int64),
        np.zeros((shape.sms, slots), np.int64),
        sms,
        np.zeros(RUN_CELLS, np.int64),
        np.zeros((len(image.program.chosen), RECORD_COLUMNS), np.int64),
        Behind(
            np.zeros((places, STAGE_COLUMNS), np.int64),
            np.zeros((places + 1, room, ITEM_COLUMNS), np.int64),
            shape.sms,
        ),
        columns,
        layout,
    )
    state.slots[:, :, BLOCK] = EMPTY
    return state


def _lay_out(
    image: GridImage, shape: GridShape, options: GridOptions, workload: GridWorkload
) -> GridLayout:
    return GridLayout(
        warps=workload.warps_per_block,
        cores=shape.sm.schedulers,
        depths=image.depth,
        most_servers=int(image.program.servers.max()),
        end_point=workload.end_point,
        gap=shape.launch_gap_cycles,
        policy=options.policy.code,
        seed=options.seed,
        jitter_percent=options.jitter.percent,
        jitter_seed=options.jitter.seed,
        served=goes_on_behind(image.program.code),
        at=RegisterColumns(*(FIXED + image.depth + n * image.register_count for n in range(5))),
    )


def require_room(events: int, most: int) -> None:
    """Raises PtxwcetError (PW690) if a run would have more events than ``most``."""
    if events <= most:
        return
    raise PtxwcetError(
        Diagnostic(
            "PW690",
            f"the trace would have {events:,} events: more than {most:,}",
            help="give a smaller launch or fewer runs, or raise --events (about 60 bytes of "
            "memory an event)",
        )
    )


def _deadlock(image: GridImage, state: GridState, warps: int) -> PtxwcetError:
    notes = []
    for sm in range(len(state.sms)):
        for slot in range(state.slots.shape[1]):
            block_warps = state.warps[sm, slot * warps : (slot + 1) * warps]
            phases = block_warps[:, PHASE]
            waiting = phases[(phases > RUNNING) & (phases < ENDED)]
            block = int(state.slots[sm, slot, BLOCK])
            if block != EMPTY and len(waiting):
                names = sorted({image.barrier_names[b] for b in waiting.tolist()})
                notes.append(f"block {block} on SM {sm} at {', '.join(names)}")
    return PtxwcetError(
        Diagnostic(
            "PW532",
            "deadlock: every warp that has not ended waits at a barrier",
            notes=tuple(notes[:8]),
            help="all warps of a block must meet the same barriers",
        )
    )
