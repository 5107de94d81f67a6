"""The bound GUB of ECRTS 2025 against every schedule of four small workloads.

Plain Python, without ptxwcet: the machine, the bound and the search are all here.

    python gub_counterexample.py        # prints bound, longest schedule, and the schedule

A workload is a list of warps, a warp a list of instructions. An instruction is

    (unit, initiation, latency, what it writes or None, what it reads or None)

The machine issues at most one instruction a cycle. An instruction is eligible if the one before
it, of its warp, was issued in an earlier cycle and what it reads is ready. If any warp is
eligible, one of these issues (the scheduler is work-conserving); which one is free. It then waits
at its unit, behind what was issued there before, occupies the unit for its initiation, and its
result is ready a latency later.
"""

DIFFERING_WARPS = [
    [("C", 3, 0, None, None), ("A", 1, 0, "x", None), ("B", 2, 0, None, "x")],
    [("C", 2, 0, "y", None), ("A", 2, 0, None, None), ("B", 1, 0, None, "y")],
]
IDENTICAL_WARPS = 2 * [
    [
        ("B", 3, 0, "r1", None),
        ("A", 1, 0, "r2", None),
        ("A", 2, 0, "r3", "r2"),
        ("B", 2, 0, "r4", "r1"),
    ]
]
ONE_INITIATION_A_UNIT = 2 * [
    [
        ("C", 4, 0, "r2", None),
        ("A", 2, 0, "r0", None),
        ("A", 2, 0, None, None),
        ("C", 4, 0, None, "r0"),
        ("B", 3, 0, None, "r2"),
        ("A", 2, 0, None, None),
        ("B", 3, 0, None, None),
    ]
]
LATENCIES = [
    [
        ("P", 1, 9, "q", None),
        ("M", 1, 10, "X", None),
        ("A", 4, 0, "u", "q"),
        ("B", 4, 0, "v", "X"),
    ],
    [
        ("Z", 1, 8, "z", None),
        *8 * [("C", 1, 0, None, None)],
        ("A", 4, 0, "a", "z"),
        ("B", 4, 0, "b", "a"),
        ("T", 1, 20, "t", "b"),
    ],
]
WORKLOADS = {
    "differing warps": DIFFERING_WARPS,
    "identical warps": IDENTICAL_WARPS,
    "one initiation a unit": ONE_INITIATION_A_UNIT,
    "with latencies": LATENCIES,
}


class Run:
    """What was issued so far; ``issued`` has (cycle, warp, unit, from, to) of each instruction."""

    def __init__(self, warps):
        self.warps = warps
        self.next = [0] * len(warps)
        self.earliest = [0] * len(warps)
        self.free = {}
        self.ready = {}
        self.end = 0
        self.issued = ()

    def eligible_from(self, warp):
        """The first cycle in which the warp's next instruction is eligible."""
        reads = self.warps[warp][self.next[warp]][4]
        return max(self.earliest[warp], self.ready.get((warp, reads), 0))

    def waiting(self):
        """The warps that have something left to issue."""
        return [w for w, program in enumerate(self.warps) if self.next[w] < len(program)]

    def issue(self, warp, cycle):
        """The run in which the warp issues its next instruction in that cycle."""
        unit, initiation, latency, writes, _ = self.warps[warp][self.next[warp]]
        after = Run(self.warps)
        begin = max(cycle, self.free.get(unit, 0))
        after.next = [n + (w == warp) for w, n in enumerate(self.next)]
        after.earliest = [cycle + 1 if w == warp else t for w, t in enumerate(self.earliest)]
        after.free = {**self.free, unit: begin + initiation}
        after.ready = dict(self.ready)
        if writes is not None:
            after.ready[warp, writes] = begin + initiation + latency
        after.end = max(self.end, begin + initiation + latency)
        after.issued = (*self.issued, (cycle, warp, unit, begin, begin + initiation))
        return after


def longest(run, cycle=0):
    """The longest of all work-conserving schedules that continue a run."""
    waiting = run.waiting()
    if not waiting:
        return run
    cycle = max(cycle, min(run.eligible_from(warp) for warp in waiting))
    choices = [warp for warp in waiting if run.eligible_from(warp) <= cycle]
    return max((longest(run.issue(w, cycle), cycle + 1) for w in choices), key=lambda one: one.end)


def gub(warps):
    """Definitions 9 and 10: a warp's length alone, plus the execution phases of all others."""
    alone = [longest(Run([warp])) for warp in warps]
    lengths = [run.end for run in alone]
    busy = [{t for *_, begin, end in run.issued for t in range(begin, end)} for run in alone]
    executing = [len(cycles) for cycles in busy]
    return max(
        length + sum(executing) - own for length, own in zip(lengths, executing, strict=True)
    )


def draw(run):
    """A row a unit, a column a cycle: the warp whose initiation is under way."""
    units = sorted({unit for _, _, unit, _, _ in run.issued})
    rows = {unit: ["."] * run.end for unit in ["issue", *units]}
    for cycle, warp, unit, begin, end in run.issued:
        rows["issue"][cycle] = str(warp)
        rows[unit][begin:end] = str(warp) * (end - begin)
    return "\n".join(f"  {name:<5}  {' '.join(cells)}" for name, cells in rows.items())


def main():
    """Prints the four workloads."""
    for name, warps in WORKLOADS.items():
        worst = longest(Run(warps))
        print(f"{name}: GUB {gub(warps)}, longest schedule {worst.end}")
        print(draw(worst))


if __name__ == "__main__":
    main()
