"""The facts of ``docs/methods/transactions.md`` by brute force, and where they end.

Accesses are random, with natural alignment as PTX requires; the counts are those of the oracle,
which serves lanes one by one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest
from transaction_oracle import (
    BANKS,
    LANES,
    LINE,
    SECTOR,
    WORD,
    Addresses,
    bank_passes,
    bank_turns,
    local_units,
    phases,
    serial_turns,
    transactions,
    units,
    words_of,
)

WIDTHS = (1, 2, 4, 8, 16)
SPACES = ("global", "shared", "local", "const")
ACCESSES = 1000  # of each kind and width


def accesses(
    seed: str, width: int, count: int = ACCESSES
) -> Iterator[tuple[random.Random, dict[int, int]]]:
    """Random aligned accesses of some or all lanes, from a distance of 0 on."""
    rng = random.Random(f"{seed} {width}")
    for _ in range(count):
        lanes = range(LANES)
        if rng.random() < 0.3:
            lanes = sorted(rng.sample(range(LANES), rng.randint(1, LANES)))
        yield rng, {lane: width * place for lane, place in zip(lanes, _places(rng), strict=False)}


def _places(rng: random.Random) -> list[int]:
    """Places of 32 lanes in units of the width."""
    kind = rng.randrange(5)
    if kind == 0:
        stride = rng.choice((0, 1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 64, rng.randrange(300)))
        return [stride * lane for lane in range(LANES)]
    if kind == 1:
        columns = rng.choice((2, 4, 8, 16))
        a, b = rng.randrange(40), rng.randrange(40)
        return [a * (lane % columns) + b * (lane // columns) for lane in range(LANES)]
    if kind == 2:
        return [rng.randrange(rng.choice((2, 8, 40, 128))) for _ in range(LANES)]
    if kind == 3:
        near = rng.randrange(1, 200)
        return [rng.randrange(near) for _ in range(LANES)]
    order = rng.sample(range(LANES), LANES)
    step = rng.choice((1, 2, 7, 32))
    return [step * (place ^ rng.choice((0, 0, 1))) for place in order]


def moved(addresses: Addresses, by: int) -> dict[int, int]:
    return {lane: address + by for lane, address in addresses.items()}


@pytest.mark.parametrize("width", WIDTHS)
def test_what_serving_lanes_comes_to(width: int) -> None:
    """The numbers that the proofs speak of are those of the simulation."""
    for _, given in accesses("formulas", width):
        passes = turns = 0
        for lanes in phases(width):
            wanted = [words_of(given[lane], width) for lane in lanes if lane in given]
            distinct = set().union(*wanted)
            passes += max(sum(w % BANKS == bank for w in distinct) for bank in range(BANKS))
            turns += max(
                sum(any(w % BANKS == bank for w in words) for words in wanted)
                for bank in range(BANKS)
            )
        assert bank_passes(width, given) == passes
        assert bank_turns(width, given) == turns
        every = [words_of(address, width) for address in given.values()]
        most = max(sum(word in words for words in every) for word in set().union(*every))
        assert serial_turns(width, given) == most


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_uniform_part_of_whole_words_changes_no_count_of_words(width: int, space: str) -> None:
    """Fact 1; sectors and lines of global memory are those of Fact 3."""
    for rng, given in accesses("uniform", width, 500):
        by = max(WORD, width) * rng.randrange(10**6)
        before = transactions(space, width, given, atomic=True)
        after = transactions(space, width, moved(given, by), atomic=True)
        if space == "global":
            assert before.serial == after.serial
        else:
            assert before == after


@pytest.mark.parametrize("width", [1, 2])
def test_parts_of_words_do(width: int) -> None:
    """Where Fact 1 ends: the residue of the uniform part modulo 4 matters, and nothing else."""
    differ = 0
    for rng, given in accesses("parts", width):
        residues = {by: bank_passes(width, moved(given, by)) for by in range(0, WORD, width)}
        by = width * rng.randrange(10**6)
        assert bank_passes(width, moved(given, by)) == residues[by % WORD]
        assert max(residues.values()) <= 2 * min(residues.values())
        differ += len(set(residues.values())) > 1
    assert differ > 10


def test_two_bytes_that_conflict_or_not() -> None:
    given = {0: 3, 1: 128}
    assert [bank_passes(1, moved(given, by)) for by in range(5)] == [2, 1, 1, 1, 2]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("width", WIDTHS)
def test_fewer_lanes_need_no_more(width: int, space: str) -> None:
    """Fact 2, for every count."""
    for rng, given in accesses("fewer", width, 500):
        given = moved(given, width * rng.randrange(100))
        some = {lane: a for lane, a in given.items() if rng.random() < rng.choice((0.2, 0.5, 0.9))}
        everyone = transactions(space, width, given, atomic=True)
        assert everyone.covers(transactions(space, width, some, atomic=True))


def test_lanes_keep_their_place_in_the_phases() -> None:
    """What Fact 2 rests on: if active lanes closed ranks first, fewer could need more."""
    first = {lane: 8 * lane for lane in range(16)}
    given = first | {lane: 8 * lane + 2048 for lane in range(16, 32)}
    assert bank_passes(8, given) == 2
    some = {lane: a for lane, a in given.items() if lane not in (13, 14, 15)}
    assert bank_passes(8, some) == 2
    closed = dict(enumerate(some.values()))
    assert bank_passes(8, closed) == 3


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("size", [SECTOR, LINE])
def test_the_worst_of_the_residues(width: int, size: int) -> None:
    """Fact 3: the bases that are known modulo g, of those that keep accesses aligned."""
    for rng, differences in accesses("residues", width, 300):
        g = rng.choice((1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 100, 128, 256))
        r0 = rng.randrange(g)
        step = math.gcd(g, size)
        legal = [r for r in range(r0 % step, size, step) if r % width == 0]
        if not legal:
            assert all((r0 + k * g) % width for k in range(2 * size))
            continue
        claim = max(len(units(moved(differences, r), width, size)) for r in legal)
        bases = [r0 + k * g for k in range(size) if (r0 + k * g) % width == 0]
        reached = {base % size: base for base in bases}
        assert sorted(reached) == legal  # each of the residues is the base of some execution
        found = [len(units(moved(differences, b), width, size)) for b in reached.values()]
        assert claim == max(found)
        by = size * rng.randrange(10**6)
        base = rng.choice(bases)
        same = len(units(moved(differences, base + by), width, size))
        assert same == len(units(moved(differences, base), width, size)) <= claim


def test_every_byte_of_a_lane_counts() -> None:
    assert units({0: 29}, 4, SECTOR) == {0, 1}
    assert units({0: 28}, 4, SECTOR) == {0}


def test_residues_that_no_legal_access_has_are_too_many() -> None:
    apart = {lane: 32 * lane for lane in range(LANES)}
    assert [len(units(moved(apart, r), 8, SECTOR)) for r in (0, 8, 16, 24, 28)] == [32] * 4 + [33]
    assert len(units(moved({lane: 64 * lane for lane in range(LANES)}, 28), 8, SECTOR)) == 64


def test_lines_have_residues_of_their_own() -> None:
    """Modulo 32 is not enough for lines."""
    row = {lane: 4 * lane for lane in range(LANES)}
    assert [len(units(moved(row, r), 4, LINE)) for r in (0, 32)] == [1, 2]


def test_differences_that_wrapped_around_are_none() -> None:
    """An index of 32 bits that passes 2^32 between two lanes parts what was one sector."""
    base = 16
    whole = {lane: base + 4 * (2**32 - 4 + lane) for lane in range(8)}
    wrapped = {lane: base + 4 * ((2**32 - 4 + lane) % 2**32) for lane in range(8)}
    assert len(units(whole, 4, SECTOR)) == 1
    assert len(units(wrapped, 4, SECTOR)) == 2


@pytest.mark.parametrize("width", WIDTHS)
def test_the_most_that_an_access_can_need(width: int) -> None:
    """The charges of an access whose differences are not known, each of them reached."""
    words = max(1, width // WORD)
    apart = {lane: 128 * lane * words for lane in range(LANES)}
    found = transactions("global", width, apart)
    assert (found.sectors, found.lines) == (32, 32)
    assert bank_passes(width, apart) == 32
    assert len(units(apart, width, WORD)) == 32 * words
    assert (
        len(local_units(apart, width, SECTOR)) == len(local_units(apart, width, LINE)) == 32 * words
    )
    for rng, given in accesses("most", width, 300):
        given = moved(given, width * rng.randrange(100))
        shared = transactions("shared", width, given, atomic=True)
        assert max(shared.passes, shared.serial) <= shared.bank_turns
        assert shared.bank_turns <= shared.passes * shared.serial
        for space in SPACES:
            counts = transactions(space, width, given, atomic=True)
            wide = space in ("local", "const")
            assert max(counts.all()) <= 32 * (words if wide else 1)
