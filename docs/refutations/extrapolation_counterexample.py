"""The extrapolation of makespans of ECRTS 2012 against every schedule of a few warps.

Plain Python, without ptxwcet: the machine, the rule and the search are all here.

    python extrapolation_counterexample.py

Warps execute the same string of letters, in order: L needs the load/store unit, C the core. A
time slot serves at most one warp on each of the two, and a warp at most once. While a warp waits
for a unit, the unit serves one that does (the schedule is work-conserving); which one is free.
"""

from functools import cache


def longest_schedule(string, warps):
    """T(W): how many slots pass at most until all have ended, with the schedule as slots."""

    @cache
    def rest(positions):
        waiting = {
            letter: [at for at in sorted(set(positions)) if string[at : at + 1] == letter]
            for letter in "LC"
        }
        loads, computes = waiting["L"] or [None], waiting["C"] or [None]
        if loads == computes == [None]:
            return ()
        slots = []
        for load in loads:
            for compute in computes:
                left = list(positions)
                for served in (load, compute):
                    if served is not None:
                        left.remove(served)
                after = [at + 1 for at in (load, compute) if at is not None]
                slots.append(((load, compute), *rest(tuple(sorted([*left, *after])))))
        return max(slots, key=len)

    return rest((0,) * warps)


def draw(string, warps):
    """A row a warp, a column a slot: the letter that it executes there."""
    positions = [0] * warps
    slots = longest_schedule(string, warps)
    rows = [["."] * len(slots) for _ in range(warps)]
    for slot, served in enumerate(slots):
        chosen = [positions.index(at) for at in served if at is not None]
        for warp in chosen:
            rows[warp][slot] = string[positions[warp]]
            positions[warp] += 1
    return "\n".join(f"  warp {warp}  {' '.join(row)}" for warp, row in enumerate(rows, 1))


def main():
    """Prints two strings."""
    for string in ("LCL", "LCLCL"):
        two, four = (len(longest_schedule(string, warps)) for warps in (2, 4))
        print(f"{string}: T(2) = {two}, so T(4) <= 2 T(2) = {2 * two} is claimed; T(4) = {four}")
        for warps in (2, 4):
            print(draw(string, warps))


if __name__ == "__main__":
    main()
