"""J1 with mbarriers (docs/methods/mbarriers.md): attacked, and the product held against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import pytest
from mbarrier_attack import (
    CONDITIONS,
    CONTROLS,
    KINDS,
    LAUNCH_CONTROLS,
    TINY,
    Launch,
    attack,
    broken,
    drawn,
    judged,
    lacking,
    launch,
    random_block,
    ring,
    search_all,
)
from mbarrier_machine import (
    ENGINE,
    Block,
    Count,
    DeadlockError,
    Give,
    Machine,
    Meet,
    NotStaticError,
    Op,
    Take,
    Wait,
    claim,
    graph_of,
    launch_claim,
    run_blocks,
)

from ptxwcet.bounds.grid import BlockKind, Dispatch, bound_grid
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.joins import JoinedSection
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.validate.cases import Case
from ptxwcet.warp.program import (
    REGISTERS,
    Barrier,
    BlockWorkload,
    Mbarrier,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

CASES = {"blocks": 40, "sections": 40, "products": 12, "launches": 12, "launches with products": 5}


@pytest.mark.parametrize("kind", KINDS)
def test_no_run_exceeds_a_bound_or_a_clock_or_has_other_phases(kind: str) -> None:
    tally = attack(drawn(kind, range(CASES[kind])), runs=4)
    assert tally.witnesses == []
    assert tally.cases >= CASES[kind] // 3
    assert tally.tightest > 0.4


@pytest.mark.parametrize("kind", TINY)
def test_no_schedule_of_something_tiny_does(kind: str) -> None:
    tally = search_all(drawn(kind, range(20 if kind == "schedules" else 6)), most=120)
    assert tally.witnesses == []
    assert tally.runs > 200


@pytest.mark.parametrize("control", [one for one in CONTROLS if one not in ("polls", "registers")])
def test_each_part_of_the_claim_is_needed(control: str) -> None:
    tally = attack(drawn("blocks", range(40)), runs=6, without=control)
    assert tally.exceeded + tally.clocks > 0


@pytest.mark.parametrize("control", LAUNCH_CONTROLS)
def test_each_part_of_the_claim_of_launches_is_needed(control: str) -> None:
    """Also of blocks with barriers of the block: what is false of these was once claimed here."""
    cases = range({"known": 6, "tail": 20}.get(control, 2))
    left_out = attack(drawn("launches", cases, control), runs=4, without=control)
    assert left_out.exceeded + left_out.clocks + left_out.tails > 0
    if control != "tail":
        assert attack(drawn("launches", cases, control), runs=4).witnesses == []


@pytest.mark.parametrize("condition", CONDITIONS)
def test_each_condition_is_needed(condition: str) -> None:
    """Runs of blocks that lack it alone have other phases than their graph, or wait for ever."""
    assert attack(drawn("", range(10), condition)).cases == 0
    left_out = attack(drawn("", range(10), condition), without=condition, runs=8)
    assert left_out.cases == 10
    assert left_out.parted > 5


def test_registers_are_waited_for() -> None:
    whole = attack(drawn("", range(20), "registers"), runs=8)
    left_out = attack(drawn("", range(20), "registers"), runs=8, without="registers")
    assert (whole.cases, whole.witnesses) == (20, [])
    assert left_out.exceeded > 5


def some(*ops: Op) -> tuple[Op, ...]:
    return ops


def test_polls_take_cycles() -> None:
    """Three warps ask while a fourth computes on their sub-core: each poll delays it."""
    chain = tuple(Op(0, 1, 0, () if not n else (n - 1,)) for n in range(200))
    works = (*chain, Op(0, 1, 0, (), Count(0, 1)))
    asks = some(Op(1, 1, 1, (), Wait(0, 0)), Op(0, 1, 0, (0,)))
    block = Block((works, asks, asks, asks), (1,), 12)
    graph = graph_of(block)
    said, left_out = claim(block, graph), claim(block, graph, without="polls")
    longest = run_blocks((block,), Machine(), lambda n: n - 1, (said,))
    assert left_out.bound < longest.cycles <= said.bound
    assert longest.exceeded <= 0
    with pytest.raises(NotStaticError, match="every cycle"):
        claim(replace(block, again=6), graph)
    with pytest.raises(NotStaticError, match="every cycle"):
        launch_claim((said,) * 2, Machine(slots=2))


def test_a_copy_may_be_on_its_way_behind_a_barrier() -> None:
    """Whoever counts there first must have waited for the copy: otherwise it counts too early."""
    met, copy = Op(0, 1, 0, (), Meet()), Op(ENGINE, 9, 0, (), Count(0, brings=64, after=200))
    first = some(Op(0, 1, 0, (), Count(0, 1, 64)), copy, met)
    second = some(met, Op(0, 1, 0, (), Count(0, 1)))
    block = Block((first, second), (1,), 50)
    with pytest.raises(NotStaticError, match="known to be over"):
        graph_of(block)
    with pytest.raises(DeadlockError):
        run_blocks((block,), Machine(), lambda n: n - 1)
    with pytest.raises(PtxwcetError, match="may count before the phase before is over"):
        as_case(block).analyse()
    waits = Op(0, 1, 2, (), Wait(0, 0))
    careful = replace(block, warps=(first, (met, waits, *second[1:])))
    graph_of(careful)
    assert joined_sections(as_case(careful))


# --- the product ----------------------------------------------------------------------------------


def as_case(block: Block, *, repeated: bool = False, cores: int = 2) -> Case:
    """A class for each warp; all mbarriers are initialised before a barrier of the block."""

    def node(place: int, op: Op) -> Node:
        timed = TimedInstruction(
            f"U{op.unit}",
            op.init,
            op.lat,
            tuple(f"r{read}" for read in op.reads),
            (f"r{place}",),
            origin=place,
        )
        match op.does:
            case Count() as does:
                behind = tuple(f"r{one}" for one in does.behind)
                numbers = does.arrivals, does.owes, does.brings, does.after
                counted = Mbarrier(0, *numbers, behind=behind)
                return PartialBarrier(timed, f"m{does.name}", 0, False, counted)
            case Wait() as does:
                spent = does.branch_init + does.branch_lat + does.bubble
                again = 2 * (op.init + op.lat) + spent
                asks = Mbarrier(
                    parity=does.parity,
                    round_cycles=again,
                    poll_cycles=op.init + does.branch_init,
                    again_cycles=block.again + does.later,
                )
                return PartialBarrier(timed, f"m{does.name}", 0, True, asks)
            case Meet():
                return Barrier(timed)
            case Give():
                return PartialBarrier(timed, REGISTERS, 0, False, Mbarrier(arrivals=1))
            case Take():
                asks = Mbarrier(round_cycles=op.init + op.lat)
                return PartialBarrier(timed, REGISTERS, 0, True, asks)
            case _:
                return timed

    plain = TimedInstruction("U0", 1, 0)
    begun = tuple(
        PartialBarrier(plain, f"m{n}", 0, False, Mbarrier(expects=count))
        for n, count in enumerate(block.expects)
    )
    classes = []
    for number, ops in enumerate(block.warps):
        body = tuple(node(n, op) for n, op in enumerate(ops))
        if repeated:
            body = (Repeat(7, body),)
        before = (*(begun if number == 0 else ()), Barrier(plain))
        classes.append(WarpClass(WarpProgram((*before, *body)), (number,)))
    workload = BlockWorkload(tuple(classes), Scoreboard.RAW)
    units = {f"U{op.unit}" for ops in block.warps for op in ops} | {"U0"}
    servers = tuple((one, 1 if one == f"U{ENGINE}" else cores) for one in sorted(units))
    return Case("", workload, schedulers=cores, servers=servers)


def joined_sections(case: Case) -> list[JoinedSection | None]:
    """Of the sections behind that which initialises the mbarriers."""
    first, *others = case.analyse().sections
    assert first.joined is None
    return [one.joined for one in others]


def begun(block: Block) -> Block:
    """The block with what ``as_case`` executes before."""
    first = (*[Op(0, 1, 0)] * len(block.expects), Op(0, 1, 0, (), Meet()))
    rows = []
    for number, ops in enumerate(block.warps):
        before = first if number == 0 else first[-1:]
        moved = (replace(op, reads=tuple(one + len(before) for one in op.reads)) for op in ops)
        rows.append((*before, *moved))
    return replace(block, warps=tuple(rows))


def blocks_of_all_kinds(count: int) -> list[tuple[int, Block]]:
    kinds: tuple[Callable[[int], Block], ...] = (
        ring,
        lambda seed: random_block(seed, tiny=True),
        random_block,
        lambda seed: random_block(seed, meets=True),
        lambda seed: lacking("known", seed).blocks[0],
    )
    return [(seed, kinds[seed % len(kinds)](seed)) for seed in range(count)]


def test_the_product_says_what_the_definitions_say() -> None:
    """Of each section, of the block alone, and what a launch needs to know."""
    known = with_barriers = 0
    for seed, block in blocks_of_all_kinds(160):
        found = judged(block)
        try:
            analysis = as_case(block).analyse()
        except PtxwcetError:
            continue
        assert found is not None, seed
        (first, *sections), said = analysis.sections, found[1]
        assert first.joined is None
        for section, (slack, work, share) in zip(sections, said.sections, strict=True):
            if section.joined is None:
                assert share is None
            else:
                own = section.joined
                assert (own.slack_cycles, own.work_cycles, own.polling) == (slack, work, share)
        known += 1
        with_barriers += len(sections) > 1 and any(one.joined is not None for one in sections)
        whole = judged(begun(block))
        assert whole is not None
        slack, work, share = whole[1].slack, whole[1].work, whole[1].share
        kind = block_kind(analysis, 1)
        assert (kind.slack_cycles, kind.work_cycles, kind.polling) == (slack, work, share), seed
        if all(one.joined is not None for one in sections):
            parts = len(block.expects) + len(block.warps), *(s + w for s, w, _ in said.sections)
            assert bound_safe(analysis).cycles <= sum(ceil(one / (1 - share)) for one in parts)
            assert bound_safe(analysis).cycles >= said.bound
    assert known > 40
    assert with_barriers > 5


@pytest.mark.parametrize("left_out", ["known", "sections"])
def test_bounds_of_blocks_with_barriers_hold_where_they_did_not(left_out: str) -> None:
    """Warps between two polls when a section begins; polls that queued up behind the one before."""
    for seed in range(6):
        (block,) = lacking(left_out, seed).blocks
        bound = bound_safe(as_case(block, cores=1).analyse()).cycles
        for choose in (lambda _: 0, lambda n: n - 1):
            longest = run_blocks((begun(block),), Machine(), choose)
            assert 0.7 * bound < longest.cycles <= bound


def test_the_product_waits_for_registers() -> None:
    for seed in range(20):
        block = broken("registers", seed)
        found, (section,) = judged(block), joined_sections(as_case(block))
        assert found is not None
        assert section is not None
        assert section.cycles == found[1].bound


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_product_refuses_what_lacks_a_condition(condition: str) -> None:
    for seed in range(5):
        with pytest.raises(PtxwcetError) as refused:
            as_case(broken(condition, seed)).analyse()
        assert refused.value.diagnostics[0].code == "PW504"


def test_whatever_is_static_is_accepted_in_rings() -> None:
    for seed in range(0, 200, 5):
        assert None not in joined_sections(as_case(ring(seed)))


def kinds_of(case: Launch) -> list[BlockKind] | None:
    try:
        return [block_kind(as_case(block).analyse(), 1) for block in case.blocks]
    except PtxwcetError:
        return None


def test_no_run_of_a_launch_exceeds_the_bound_of_the_product() -> None:
    """The bound, form by form, is that of the definitions."""
    compared = 0
    for seed in range(40):
        case = launch(seed, tiny=seed % 2 == 0)
        kinds = kinds_of(case)
        if kinds is None:
            continue
        blocks = tuple(map(begun, case.blocks))
        found = {block: judged(block) for block in blocks}
        said = [one[1] for one in map(found.get, blocks) if one is not None]
        dispatch = Dispatch(case.machine.sms, case.machine.slots)
        try:
            expected = launch_claim(said, case.machine)
        except NotStaticError:
            with pytest.raises(PtxwcetError, match="could issue in each cycle"):
                bound_grid(kinds, dispatch)
            continue
        bound = bound_grid(kinds, dispatch)
        assert bound.cycles == expected, seed
        compared += 1
        for choose in (lambda n: n - 1, lambda _: 0):
            assert run_blocks(blocks, case.machine, choose).cycles <= bound.cycles, seed
    assert compared > 15


def test_polls_are_a_part_of_the_bound_of_a_launch() -> None:
    """And a run takes more than without: the blocks of each SM delay one another."""
    case = lacking("share", 3)
    kinds = kinds_of(case)
    assert kinds is not None
    dispatch = Dispatch(1, case.machine.slots)
    bound = bound_grid(kinds, dispatch)
    share = case.machine.slots * kinds[0].polling
    whole = bound.cycles - bound.polling_cycles
    assert 0 < share < 1
    assert bound.cycles == ceil(whole / (1 - share))
    longest = run_blocks(tuple(map(begun, case.blocks)), case.machine, lambda n: n - 1)
    assert whole < longest.cycles <= bound.cycles


def test_no_run_of_the_simulator_exceeds_the_bound() -> None:
    runs = 0
    for seed in range(36):
        block = ring(seed) if seed % 2 else random_block(seed, meets=seed % 4 == 2)
        case = as_case(block)
        try:
            bound = bound_safe(case.analyse()).cycles
        except PtxwcetError:
            continue
        for policy in (Policy.LRR, Policy.GTO, Policy.YOUNGEST):
            for jitter in (Jitter(0, 0), Jitter(80, seed)):
                found = reference_run(
                    case.workload, case.configuration, policy, seed=seed, jitter=jitter
                )
                runs += 1
                assert found.cycles <= bound, seed
    assert runs > 60


def test_a_warp_waits_for_its_own_copy() -> None:
    """Alone in its block it is no faster for that: its length alone says nothing of the copy."""
    ops = (
        Op(0, 1, 0, (), Count(0, 1, 64)),
        Op(ENGINE, 9, 0, (), Count(0, brings=64, after=200)),
        Op(0, 1, 2, (), Wait(0, 0)),
        Op(0, 1, 0, (2,)),
    )
    case = as_case(Block((ops,), (1,), 50))
    bound = bound_safe(case.analyse()).cycles
    run_of_it = reference_run(case.workload, case.configuration, Policy.LRR)
    assert 200 < run_of_it.cycles <= bound
    kind = block_kind(case.analyse(), 1)
    assert kind.slack_cycles + kind.work_cycles >= 200


def test_a_section_that_is_repeated_leaves_mbarriers_as_they_were() -> None:
    """Also what is known of them: in its next run a phase may be on its way."""
    count, met = Op(0, 1, 0, (), Count(0, 1)), Op(0, 1, 0, (), Meet())
    two = (count, Op(0, 1, 2, (), Wait(0, 0)), count)
    seen = (*two, Op(0, 1, 2, (), Wait(0, 1)), met)
    assert joined_sections(as_case(Block((seen, (met,)), (1,), 50), repeated=True))
    with pytest.raises(PtxwcetError, match="a phase that may not be over"):
        as_case(Block(((met, *two), (met,)), (1,), 50), repeated=True).analyse()
    with pytest.raises(PtxwcetError, match="may count before the phase before is over"):
        as_case(Block(((*two, met), (met,)), (1,), 50), repeated=True).analyse()
    with pytest.raises(PtxwcetError, match="leaves it in another phase"):
        as_case(Block(((met, *two[:2]), (met,)), (1,), 50), repeated=True).analyse()


def test_loops_say_what_their_iterations_say() -> None:
    """A body that leaves all mbarriers as they were is repeated: as if it were written out."""
    compared = 0
    for seed in range(400):
        block = ring(seed)
        stages = len(block.expects) // 2
        tiles = sum(isinstance(op.does, Wait) for op in block.warps[0])
        if tiles % (2 * stages):
            continue
        whole = tuple(
            tuple(
                replace(op, reads=tuple(read + times * len(ops) for read in op.reads))
                for times in range(7)
                for op in ops
            )
            for ops in block.warps
        )
        written = joined_sections(as_case(replace(block, warps=whole)))
        assert joined_sections(as_case(block, repeated=True)) == written, seed
        compared += 1
        if compared == 8:
            return
    raise AssertionError("too few rings")
