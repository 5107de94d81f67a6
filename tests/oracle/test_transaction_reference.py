"""The counts of the oracle against figures that NVIDIA has published.

[B] CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory" and "Shared Memory";
[P] CUDA C++ Programming Guide, appendix on compute capabilities ("Global Memory", "Shared Memory")
and "Device Memory Accesses"; [F] CUDA C Programming Guide of the generation 2.x, "Shared Memory",
64- and 128-bit accesses; [N] an NVIDIA engineer in the developer forum, on LDS.128 of compute
capability 7.x.
"""

import random
from collections.abc import Callable

import pytest
from transaction_oracle import Addresses, Transactions, transactions

BASE = 256 * 1000


def warp(address: Callable[[int], int]) -> Addresses:
    return {lane: BASE + address(lane) for lane in range(32)}


def of_global(width: int, address: Callable[[int], int]) -> tuple[int, int]:
    counts = transactions("global", width, warp(address))
    return counts.sectors, counts.lines


def passes(width: int, address: Callable[[int], int]) -> int:
    return transactions("shared", width, warp(address)).passes


def test_adjacent_words_take_four_sectors() -> None:
    # [B] A Simple Access Pattern: four 32-byte transactions
    assert of_global(4, lambda lane: 4 * lane) == (4, 1)


def test_permuted_words_take_no_more() -> None:
    # [P] Examples of Global Memory Accesses, aligned and non-sequential: 4 x 32 bytes, 1 x 128
    order = random.Random(1).sample(range(32), 32)
    assert of_global(4, lambda lane: 4 * order[lane]) == (4, 1)


def test_misaligned_words_take_five_sectors() -> None:
    # [B] A Sequential but Misaligned Access Pattern; [P] misaligned: 5 x 32 bytes, 2 x 128
    assert of_global(4, lambda lane: 4 * lane + 4) == (5, 2)


@pytest.mark.parametrize("offset", range(33))
def test_offset_copy(offset: int) -> None:
    # [B] Effects of Misaligned Accesses: four transactions where the offset is 0 or a multiple of
    # 8 words, else five
    sectors, _ = of_global(4, lambda lane: 4 * (lane + offset))
    assert sectors == (4 if offset % 8 == 0 else 5)


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (4, 16), (8, 32), (32, 32)])
def test_strided_words(stride: int, sectors: int) -> None:
    # [B] Strided Accesses: eight segments with a stride of 2, up to 32 for the 32 threads
    assert of_global(4, lambda lane: 4 * lane * stride)[0] == sectors


def test_not_all_lanes_take_part() -> None:
    # [B] A Simple Access Pattern: not all threads need to participate
    some = {lane: address for lane, address in warp(lambda lane: 4 * lane).items() if lane % 3}
    assert transactions("global", 4, some) == Transactions(sectors=4, lines=1)


@pytest.mark.parametrize(("width", "lines"), [(8, 2), (16, 4)])
def test_wide_accesses_take_as_many_lines_as_they_have_bytes(width: int, lines: int) -> None:
    # [P] compute capability 3.x: a request of 128 bytes for each half or quarter warp
    assert of_global(width, lambda lane: width * lane) == (4 * lines, lines)


@pytest.mark.parametrize(("stride", "wanted"), [(1, 1), (2, 2), (3, 1), (4, 4), (32, 32), (33, 1)])
def test_strided_words_in_shared_memory(stride: int, wanted: int) -> None:
    # [P] Strided Shared Memory Accesses: stride 1 none, 2 two-way, 3 none. [B] Shared Memory in
    # Matrix Multiplication: a column of a tile of 32 by 32 is 32-way, of one padded to 33 free
    assert passes(4, lambda lane: 4 * lane * stride) == wanted


def test_any_permutation_is_free() -> None:
    # [P] Irregular Shared Memory Accesses, left
    order = random.Random(2).sample(range(32), 32)
    assert passes(4, lambda lane: 4 * order[lane]) == 1


def test_lanes_on_one_word_are_free() -> None:
    # [P] Irregular Shared Memory Accesses, middle (lanes 3, 4, 6, 7 and 9 on one word of bank 5)
    # and right (one word of each of few banks)
    assert passes(4, lambda lane: 4 * (5 if lane in (3, 4, 5, 6, 7, 9) else lane)) == 1
    assert passes(4, lambda lane: 4 * (lane // 8 * 3)) == 1
    assert passes(4, lambda lane: 0) == 1


@pytest.mark.parametrize("width", [1, 2])
def test_bytes_of_a_word_are_free(width: int) -> None:
    # [P] two threads that access any address within the same 32-bit word do not conflict
    assert passes(width, lambda lane: width * lane) == 1


@pytest.mark.parametrize("member", range(3))
def test_a_structure_of_three_words(member: int) -> None:
    # [F] three separate reads without conflicts, since the stride is three words
    assert passes(4, lambda lane: 4 * (3 * lane + member)) == 1


def test_doubles() -> None:
    # [F] a conflict only within a half warp; an array of doubles has none: one pass each
    assert passes(8, lambda lane: 8 * lane) == 2
    assert passes(8, lambda lane: 16 * lane) == 4
    assert passes(8, lambda lane: 8 * (lane % 16) + 128 * (lane // 16)) == 2


def test_four_words_a_lane() -> None:
    # [N] LDS.128 takes four requests, also where lanes have the same address
    assert passes(16, lambda lane: 16 * lane) == 4
    assert passes(16, lambda lane: 0) == 4
    assert passes(16, lambda lane: 32 * lane) == 8


def test_local_memory_is_interleaved() -> None:
    # [P] Local Memory: consecutive words belong to consecutive threads, so that accesses are
    # coalesced if all threads access the same relative address
    same = dict.fromkeys(range(32), 20)
    assert transactions("local", 4, same) == Transactions(sectors=4, lines=1)
    apart = {lane: 4 * lane for lane in range(32)}
    assert transactions("local", 4, apart) == Transactions(sectors=32, lines=32)
    assert transactions("local", 16, dict.fromkeys(range(32), 32)).sectors == 16


def test_constants_take_a_request_for_each_address() -> None:
    # [P] Constant Memory: as many requests as there are different addresses
    assert transactions("const", 4, warp(lambda lane: 0)).addresses == 1
    assert transactions("const", 4, warp(lambda lane: 4 * (lane % 5))).addresses == 5
    wide = transactions("const", 16, warp(lambda lane: 0))
    assert (wide.words, wide.addresses) == (4, 1)
    narrow = transactions("const", 1, warp(lambda lane: lane))
    assert (narrow.words, narrow.addresses) == (8, 32)


def test_atomic_operations_on_one_word_are_serial() -> None:
    # [P] SIMT Architecture: each read, modify and write of a location occurs, one after the other
    one = transactions("global", 4, warp(lambda lane: 0), atomic=True)
    assert (one.sectors, one.serial) == (1, 32)
    apart = transactions("global", 4, warp(lambda lane: 4 * lane), atomic=True)
    assert (apart.sectors, apart.serial) == (4, 1)
    pairs = transactions("shared", 4, warp(lambda lane: 4 * (lane % 16)), atomic=True)
    assert (pairs.passes, pairs.serial, pairs.bank_turns) == (1, 2, 2)


def test_words_of_one_bank_are_not_one_word() -> None:
    # 4 words of one bank with 8 lanes each: what is served in turns is the bank
    counts = transactions("shared", 4, warp(lambda lane: 128 * (lane % 4)), atomic=True)
    assert (counts.passes, counts.serial, counts.bank_turns) == (4, 8, 32)
