"""Random kernels: the analysis of accesses says no less than is executed."""

from access_attack import Attacked, attack, attack_kernel
from access_kernels import open_access_kernel


def test_random_kernels_need_no_more() -> None:
    total = Attacked()
    for seed in range(50):
        total.add(attack(seed))
    assert total.wrong == []
    assert total.accesses > 250
    assert total.exact > 125


def test_kernels_of_which_less_is_known_need_no_more() -> None:
    total = Attacked()
    for seed in range(15):
        total.add(attack_kernel(open_access_kernel(seed)))
    assert total.wrong == []
    assert total.accesses > 100
    assert total.exact > 50
