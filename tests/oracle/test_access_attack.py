"""Random kernels: the analysis of accesses says no less than is executed."""

from access_attack import Attacked, attack


def test_random_kernels_need_no_more() -> None:
    total = Attacked()
    for seed in range(50):
        total.add(attack(seed))
    assert total.wrong == []
    assert total.accesses > 250
    assert total.exact > 125
