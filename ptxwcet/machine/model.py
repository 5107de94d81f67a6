"""Defines the machine model of the analysis: units, op class timings, issue rules, limits.

A :class:`Machine` is complete: each op class either has a timing or is refused with a reason, and
each assumption that a bound may need has a state. Machine files (``models/*.toml``) give the
values; docs/machine-files.md describes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import Scoreboard

WARP_SIZE = 32
"""The threads of a warp, on every CUDA machine so far."""


class Evidence(Enum):
    """The evidence for a number, most reliable first."""

    VENDOR = "vendor"  # documented by the manufacturer
    VENDOR_COMPILER = "vendor-compiler"  # the vendor compiler's distance: sufficient
    MEASURED = "measured"  # microbenchmark, of hardware or of a simulator
    SIMULATOR_CONFIG = "simulator-config"  # a public configuration file
    PAPER = "paper"  # stated in a publication without a measurement of its own
    ASSUMED = "assumed"  # our decision; the source has the reason


@dataclass(frozen=True, slots=True)
class FunctionalUnit:
    """A kind of unit, and its count per SM."""

    name: str
    count: int


class Reader(Enum):
    """The consumer of a result; the value is the key used in machine files.

    :mod:`ptxwcet.timing.readers` maps instructions to consumers.
    """

    GUARD = "guard"  # the predicate of a guard, of a branch too
    OPERAND = "operand"  # an operand of integer or logic arithmetic, a comparison, a move, a choice
    FLOAT = "float"  # an operand of f32 add, mul, fma
    HALF = "half"  # an operand of f16 and bf16 arithmetic
    MEMORY = "memory"  # address or data of a load, a store, an atomic operation


@dataclass(frozen=True, slots=True)
class OpTiming:
    """Unit, ``init`` and ``lat`` of an op class, in cycles of the issue axis (model, section 1).

    ``is_upper``: the charge may exceed the machine's, so no lower bound can use it. ``readers`` has
    the latency to consumers that wait for less than ``latency_cycles``. ``stalls``: its warp issues
    nothing until it has ended. ``rates`` has, for products of a warpgroup, the operations per cycle
    and SM by the kind of their factors, and the bytes that shared memory delivers in a cycle;
    ``initiation_cycles`` is then the least of any shape. For bulk copies it has the bytes per cycle
    (for boxes of tensors a separate figure), for waits for mbarriers the least number of cycles
    before a warp repeats an unsuccessful query. ``forms`` has initiation and latency of
    instructions that take less than the slowest of the class, by their mnemonics
    (``ex2.approx.ftz.f32``).
    """

    unit: str
    initiation_cycles: int
    latency_cycles: int
    evidence: Evidence
    source: str
    is_upper: bool = False
    readers: tuple[tuple[Reader, int], ...] = ()
    stalls: bool = False
    rates: tuple[tuple[str, int], ...] = ()
    forms: tuple[tuple[str, tuple[int, int]], ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedOp:
    """An op class without a timing in the machine file, and the reason."""

    reason: str


class TimingMeaning(Enum):
    """The meaning of a file's numbers for the machine that it describes."""

    EXACT = "exact"  # its nominal timings: lower bounds make sense
    UPPER = "upper"  # charged or rounded up: no lower bound follows from them


@dataclass(frozen=True, slots=True)
class ResidencyLimits:
    """The limits of one block and of one SM."""

    threads_per_block: int
    shared_bytes_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    shared_bytes_per_sm: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a machine file with its origin."""

    value: int
    evidence: Evidence
    source: str


@dataclass(frozen=True, slots=True)
class OccupancyRules:
    """The number of SMs, and the allocation units of registers and shared memory on an SM.

    A warp is given registers in multiples of ``registers_per_warp_unit``, all from one of
    ``register_partitions`` equal parts of the register file; a block's shared memory is its own and
    ``shared_bytes_reserved_per_block``, rounded up to ``shared_bytes_unit``.
    """

    sms: Figure
    registers_per_thread: Figure
    registers_per_block: Figure
    registers_per_warp_unit: Figure
    register_partitions: Figure
    shared_bytes_unit: Figure
    shared_bytes_reserved_per_block: Figure


@dataclass(frozen=True, slots=True)
class DispatchRules:
    """The assignment of a launch's blocks to the slots of SMs, in cycles (docs/methods/grid.md).

    While blocks wait, an SM with R slots is given its n-th block within ``delay_cycles`` of the end
    of the first n - R, not counting cycles in which the launcher is closed: ``gap_cycles`` after
    each start. Before the first block starts and after the last one ends, a launch takes
    ``launch_overhead_cycles`` together.
    """

    delay_cycles: Figure
    gap_cycles: Figure
    launch_overhead_cycles: Figure


@dataclass(frozen=True, slots=True)
class ExpansionRules:
    """The least cost of a PTX instruction that the compiler expands to several.

    ``target`` is the architecture (86: sm_86) whose counts are taken
    (:mod:`ptxwcet.machine.expansion`). An ordinary instruction, one of the unit for special
    functions, and one of 64-bit floating point or a conversion from or to such a width occupy their
    units for the ``issue`` cycles, and take the ``row`` cycles in a chain.
    """

    target: Figure
    ordinary_issue_cycles: Figure
    ordinary_row_cycles: Figure
    special_issue_cycles: Figure
    special_row_cycles: Figure
    double_issue_cycles: Figure
    double_row_cycles: Figure


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """The cost of the transactions of a warp's access, in cycles (docs/methods/transactions.md).

    At the unit of its op class an access takes its initiation, but at least ``line_cycles`` for
    each 128-byte line of global or local memory, ``pass_cycles`` for each pass over the banks of
    shared memory, ``word_cycles`` for each distinct address of constants and parameters,
    ``serial_cycles`` for each lane of an atomic operation that has to wait for another one.

    After its unit it takes ``path_request_cycles`` of the memory path that the sub-cores of an SM
    share, but at least ``path_line_cycles`` for each line and ``path_pass_cycles`` for each pass;
    all 0 without such a path. ``path_stored_line_cycles`` is for each line that an access
    changes, where that takes longer. 1024 sectors of 32 bytes take the memory of the GPU
    ``server_cycles_per_1024_sectors``; 0 where no access waits for it. That is the rate of streams,
    and not the worst, if ``server_worst_cycles_per_1024_sectors`` gives the worst. A sector that a
    store does not fill is fetched ``partial_sector_fetches`` times, 0 or 1.
    """

    line_cycles: Figure
    pass_cycles: Figure
    word_cycles: Figure
    serial_cycles: Figure
    path_request_cycles: Figure
    path_line_cycles: Figure
    path_pass_cycles: Figure
    server_cycles_per_1024_sectors: Figure
    server_worst_cycles_per_1024_sectors: Figure | None = None
    partial_sector_fetches: Figure | None = None
    path_stored_line_cycles: Figure | None = None

    @property
    def charged_cycles_per_1024_sectors(self) -> int:
        """The cycles of GPU memory for 1024 sectors, in its worst pattern if that is known."""
        worst = self.server_worst_cycles_per_1024_sectors
        return (self.server_cycles_per_1024_sectors if worst is None else worst).value

    def path_cycles_of_lines(self, lines: int, *, are_loaded: bool) -> int:
        """Returns the path cycles of lines that are loaded, or that an access may change."""
        of_stored = None if are_loaded else self.path_stored_line_cycles
        return (of_stored or self.path_line_cycles).value * lines

    @property
    def fetches_of_partial_sectors(self) -> int:
        """The fetches of a sector that a store does not fill: one if the figure is absent."""
        stated = self.partial_sector_fetches
        return 1 if stated is None else stated.value


@dataclass(frozen=True, slots=True)
class CarveOutRules:
    """The persisting part of the L2 cache of a launch (docs/methods/first-touch.md).

    It has ``carve_out_bytes``, is filled in units of ``unit_bytes``, and the cache, which is
    between the SMs and the memory of the GPU, takes ``cache_cycles_per_1024_sectors`` of any.
    """

    carve_out_bytes: Figure
    unit_bytes: Figure
    cache_cycles_per_1024_sectors: Figure


@dataclass(frozen=True, slots=True)
class L1Rules:
    """The L1 cache of an SM, for claims about it (docs/methods/caches.md).

    They are about ``kept_bytes``, where no block uses shared memory.
    """

    kept_bytes: Figure


@dataclass(frozen=True, slots=True)
class L2Rules:
    """The L2 cache as a server, and for claims about it (docs/methods/caches.md).

    It has ``bytes``, and takes ``cache_cycles_per_1024_sectors`` of any access. Claims are about
    ``kept_bytes`` of it, for the data of one launch; the claim of hashed sets is about ``sets``
    with ``ways`` each.
    """

    bytes: Figure
    kept_bytes: Figure
    cache_cycles_per_1024_sectors: Figure
    sets: Figure | None = None
    ways: Figure | None = None


@dataclass(frozen=True)
class Machine:
    """A machine file, resolved for one global-memory latency.

    ``memory_latency_cycles`` is the parameter that was put into the timings. ``issues_return``:
    ``ret`` and ``exit`` are issued like other instructions. ``satisfies`` holds every known
    assumption. ``occupancy`` is None if the machine file does not give the residency of blocks,
    ``dispatch`` if it does not give their start, ``expansion`` if each instruction of PTX is one of
    the machine's, ``memory`` if the cost of an access is independent of its addresses,
    ``carve_out`` if no part of the L2 cache can be persisting, ``l1_cache`` and ``l2_cache`` if
    there are no claims about them. ``makespan_letters`` maps units to load/store units (L) or cores
    (C) for the makespan methods; a unit without a letter is neither. ``compute_capability`` belongs
    to the GPU, None for an idealised machine.
    """

    name: str
    description: str
    schema: int
    units: tuple[FunctionalUnit, ...]
    timings: Mapping[OpClass, OpTiming | RefusedOp]
    timing_meaning: TimingMeaning
    scoreboard: Scoreboard
    issues_return: bool
    taken_branch_bubble_cycles: int
    schedulers_per_sm: int
    clock_mhz: int
    memory_latency_cycles: int
    limits: ResidencyLimits
    satisfies: tuple[Assumption, ...]
    makespan_letters: Mapping[str, str]
    warp_size: int = WARP_SIZE
    occupancy: OccupancyRules | None = None
    dispatch: DispatchRules | None = None
    expansion: ExpansionRules | None = None
    memory: MemoryRules | None = None
    carve_out: CarveOutRules | None = None
    l1_cache: L1Rules | None = None
    l2_cache: L2Rules | None = None
    compute_capability: str | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.memory_latency_cycles))

    def __repr__(self) -> str:
        latency = self.memory_latency_cycles
        return f"<Machine {self.name}: {self.clock_mhz} MHz, memory latency {latency} cycles>"

    @property
    def is_idealised(self) -> bool:
        """True if no assumption is doubtful: an idealised machine, not a real GPU."""
        return all(satisfy.state is not AssumptionState.DOUBTFUL for satisfy in self.satisfies)

    @property
    def cache_cycles_per_1024_sectors(self) -> int:
        """The cycles of the L2 cache for 1024 sectors; 0 if it has no cost."""
        caches = [cache for cache in (self.carve_out, self.l2_cache) if cache is not None]
        return max((cache.cache_cycles_per_1024_sectors.value for cache in caches), default=0)

    @property
    def cycles_per_1024_sectors(self) -> int:
        """The cycles of cache (if it has a cost) and GPU memory for 1024 sectors, added up."""
        memory = 0 if self.memory is None else self.memory.charged_cycles_per_1024_sectors
        return self.cache_cycles_per_1024_sectors + memory

    @property
    def has_path(self) -> bool:
        """True if accesses pass a memory path that the sub-cores of an SM share."""
        rules = self.memory
        return rules is not None and any(
            figure.value
            for figure in (
                rules.path_request_cycles,
                rules.path_line_cycles,
                rules.path_pass_cycles,
            )
        )

    def unit(self, name: str) -> FunctionalUnit:
        """Returns the unit of that name. Raises KeyError if the machine has none."""
        for unit in self.units:
            if unit.name == name:
                return unit
        raise KeyError(name)

    def states(self, key: str) -> bool:
        """Returns whether the machine file has an entry for an assumption."""
        return any(satisfy.key == key for satisfy in self.satisfies)

    def assumption(self, key: str) -> Assumption:
        """Returns the ledger entry of an assumption. Raises KeyError for an unknown key."""
        for assumption in self.satisfies:
            if assumption.key == key:
                return assumption
        raise KeyError(key)
