"""What an access of a warp needs of memory, counted by serving its lanes: slow and obvious.

Independent of the analysis: spaces, widths and addresses in, counts out, and no formula. An access
is given as the byte address of each active lane; every lane has so many bytes from there on. Where
the rules come from: ``docs/methods/transactions.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

LANES = 32
SECTOR = 32  # bytes
LINE = 128  # bytes
BANKS = 32
WORD = 4  # bytes: what a bank gives in a pass

Addresses = Mapping[int, int]
"""The byte address of each active lane."""


@dataclass(frozen=True)
class Transactions:
    """Counts of one access; 0 for what its space does not have.

    ``sectors`` and ``lines`` of global and local memory, lines of global memory of each phase
    apart; ``passes`` over the banks of shared
    memory; ``words`` and different ``addresses`` of constants and parameters. Of atomic operations:
    ``serial``, the turns in which lanes on one word are served one after the other, and in shared
    memory ``bank_turns``, the turns if besides a bank serves one lane in each. Of what changes
    memory: ``partial``, the sectors of which a byte stays as it was, or is read as well.
    """

    sectors: int = 0
    lines: int = 0
    passes: int = 0
    words: int = 0
    addresses: int = 0
    serial: int = 0
    bank_turns: int = 0
    partial: int = 0

    def largest(self, other: Transactions) -> Transactions:
        """The larger of each count."""
        return Transactions(*(max(pair) for pair in zip(self.all(), other.all(), strict=True)))

    def covers(self, other: Transactions) -> bool:
        """Whether no count of ``other`` is larger."""
        return self.largest(other) == self

    def all(self) -> tuple[int, ...]:
        """The counts in the order of their fields."""
        return (
            self.sectors,
            self.lines,
            self.passes,
            self.words,
            self.addresses,
            self.serial,
            self.bank_turns,
            self.partial,
        )


def transactions(
    space: str, width: int, addresses: Addresses, *, atomic: bool = False, store: bool = False
) -> Transactions:
    """The counts of an access of ``width`` bytes a lane in a space."""
    found = _read(space, width, addresses, atomic=atomic)
    if atomic:
        return replace(found, partial=found.sectors)
    return replace(found, partial=partial_sectors(space, width, addresses)) if store else found


def partial_sectors(space: str, width: int, addresses: Addresses) -> int:
    """Sectors in which some lanes write, and some byte is written by none."""
    if space not in ("global", "local"):
        return 0
    written = set()
    for lane, address in addresses.items():
        for byte in range(address, address + width):
            word, rest = divmod(byte, WORD)
            written.add(byte if space == "global" else (LANES * word + lane) * WORD + rest)
    touched = {byte // SECTOR for byte in written}
    whole = {
        one for one in touched if written.issuperset(range(SECTOR * one, SECTOR * one + SECTOR))
    }
    return len(touched) - len(whole)


def _read(space: str, width: int, addresses: Addresses, *, atomic: bool) -> Transactions:
    assert all(0 <= lane < LANES for lane in addresses)
    serial = serial_turns(width, addresses) if atomic else 0
    if space == "shared":
        turns = bank_turns(width, addresses) if atomic else 0
        return Transactions(passes=bank_passes(width, addresses), serial=serial, bank_turns=turns)
    if space in ("const", "param"):
        words, different = units(addresses, width, WORD), set(addresses.values())
        return Transactions(words=len(words), addresses=len(different))
    if space == "local":
        return Transactions(
            sectors=len(local_units(addresses, width, SECTOR)),
            lines=len(local_units(addresses, width, LINE)),
        )
    assert space == "global", space
    return Transactions(
        sectors=len(units(addresses, width, SECTOR)),
        lines=sum(
            len(units({lane: addresses[lane] for lane in lanes if lane in addresses}, width, LINE))
            for lanes in phases(width)
        ),
        serial=serial,
    )


def units(addresses: Addresses, width: int, size: int) -> set[int]:
    """The aligned pieces of ``size`` bytes in which some lane has a byte."""
    found = set()
    for address in addresses.values():
        for byte in range(address, address + width):
            found.add(byte // size)
    return found


def local_units(addresses: Addresses, width: int, size: int) -> set[int]:
    """As ``units``, of local memory: word k of lane l lies at word 32 k + l of the warp's piece."""
    found = set()
    for lane, address in addresses.items():
        for byte in range(address, address + width):
            word, rest = divmod(byte, WORD)
            found.add(((LANES * word + lane) * WORD + rest) // size)
    return found


def words_of(address: int, width: int) -> set[int]:
    """The 32-bit words in which a lane has a byte."""
    return {byte // WORD for byte in range(address, address + width)}


def phases(width: int) -> list[range]:
    """The lanes that go together: all, half warps with 8 bytes a lane, quarter warps with 16."""
    together = min(LANES, max(1, LANES * WORD // width))
    return [range(first, first + together) for first in range(0, LANES, together)]


def bank_passes(width: int, addresses: Addresses) -> int:
    """Passes over the banks: in each a bank gives one word, to all lanes that want it."""
    passes = 0
    for lanes in phases(width):
        wanted = {lane: words_of(addresses[lane], width) for lane in lanes if lane in addresses}
        while any(wanted.values()):
            passes += 1
            given: dict[int, int] = {}
            for words in wanted.values():
                for word in sorted(words):
                    given.setdefault(word % BANKS, word)
            for words in wanted.values():
                words.difference_update(given.values())
    return passes


def serial_turns(width: int, addresses: Addresses) -> int:
    """Turns of an atomic operation: in each a word serves one lane, with all its words or none."""
    waiting, turns = dict(addresses), 0
    while waiting:
        turns += 1
        taken: set[int] = set()
        for lane, address in list(waiting.items()):
            words = words_of(address, width)
            if not words & taken:
                taken |= words
                del waiting[lane]
    return turns


def bank_turns(width: int, addresses: Addresses) -> int:
    """Turns of an atomic operation in shared memory: in each a bank serves one lane."""
    turns = 0
    for lanes in phases(width):
        waiting = {lane: addresses[lane] for lane in lanes if lane in addresses}
        while waiting:
            turns += 1
            taken: set[int] = set()
            for lane, address in list(waiting.items()):
                banks = {word % BANKS for word in words_of(address, width)}
                if not banks & taken:
                    taken |= banks
                    del waiting[lane]
    return turns
