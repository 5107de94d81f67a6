"""Runs of lines in hashed sets (docs/methods/caches.md, C2): what fits is fetched once."""

import pytest
from hashed_sets import Case, anywhere, hashed, moved, random_case

pytestmark = pytest.mark.fast


def test_what_fits_in_hashed_sets_is_fetched_once() -> None:
    fit = exact = unlike = 0
    for seed in range(600):
        case = random_case(seed)
        if case.claimed is None:
            continue
        fit += 1
        found = moved(case, hashed(case.sets, seed), seed)
        assert found <= case.claimed, case
        exact += found == case.claimed
        unlike += moved(case, anywhere(case.sets, seed), seed) > case.claimed
    assert fit > 100 < exact
    assert unlike > 5  # sets that are not a permutation of each piece: false


def test_a_way_less_is_not_enough() -> None:
    """Two lines in two pieces that one set has, and as many runs of one as there are ways."""
    by_two = Case(4, 2, (range(3, 5),), 3)
    assert by_two.claimed == 2 * 4 + 4 * 2
    assert Case(4, 1, (range(3, 5),), 3).claimed is None
    assert moved(Case(4, 1, (range(3, 5),), 3), lambda _: 0, 0) > 16
    for ways in (1, 2, 5):
        alone = tuple(range(100 * n, 100 * n + 1) for n in range(ways + 1))
        assert Case(8, ways, alone, 3).claimed is None
        assert Case(8, ways + 1, alone, 3).claimed == 8 * (ways + 1)
    # N + 1 lines meet two pieces, N + 2 three
    for lines, ways in ((2, 2), (8, 2), (9, 2), (10, 3), (17, 3), (18, 4)):
        run = (range(7, 7 + lines),)
        assert Case(8, ways, run, 1).claimed is not None
        assert Case(8, ways - 1, run, 1).claimed is None
        assert len({line // 8 for line in run[0]}) == ways
