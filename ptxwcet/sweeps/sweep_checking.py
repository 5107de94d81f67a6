"""Checking a table ``[[sweep]]``: for every combination of its axes, what its texts lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ptxwcet.opened.launch_tables import LINK, PATHS
from ptxwcet.opened.plan_reading import PlanProblems
from ptxwcet.sweeps.expressions import NoValueError, Values
from ptxwcet.sweeps.sweep_reading import Places
from ptxwcet.sweeps.sweep_tables import Choice, Sources, SweepTable, for_values
from ptxwcet.sweeps.sweep_values import NUMBER_KEYS, is_number, number_expected

MOST_UNITS = 10_000_000
"""Most units of a plan, and most combinations of axes before ``where`` leaves any out."""
NARROWER = "split the plan, or narrow its axes"
"""What to do where there are too many."""
_MOST_EFFORT = 100_000_000
"""Most times that texts are rendered to check them: a minute or two."""
_MOST_SUGGESTED = 1_000
_LOOKED_UP = (*PATHS, "files", "machines")


class Checker:
    """Goes through the combinations of axes of tables, and reports what is wrong with them."""

    def __init__(self, problems: PlanProblems, sources: Sources) -> None:
        self._problems = problems
        self._sources = sources
        self._required: set[tuple[str, str]] = set()
        self._effort = 0

    def count(self, table: SweepTable) -> int:
        """How many units a table has, if nothing is reported. Files are opened."""
        conditions = table.condition_names
        for name in table.link:
            self._problems.require_file(name, LINK, table.number - 1)
        held = self._count_held(table)
        if not held:
            return 0
        together = {path: one for path, one in _all_choices(table) if one.names & conditions}
        groups = [{path: one} for path, one in _all_choices(table) if path not in together]
        checked = [self._check(table, group) for group in (*groups, together)]
        if not all(checked):
            return 0
        subjects = self._count_subjects(table)
        seen = table.domain_names(table.subject_names)
        if not seen & conditions:
            subjects *= held
            seen |= conditions
        others = prod(len(values) for name, values in table.axes.items() if name not in seen)
        return subjects * others * table.fixed_factor()

    def _require_effort(self, effort: int, number: int, path: str) -> None:
        """Stops with PW572 if so many more renderings of texts are too much for one plan."""
        self._effort += effort
        if self._effort > _MOST_EFFORT:
            message = "too many texts depend on too many combinations of axes"
            self._problems.report("PW572", message, path, number, NARROWER)
            self._problems.stop()

    def _count_held(self, table: SweepTable) -> int:
        """How many combinations of the axes that ``where`` names it leaves in."""
        if not table.where:
            return 1
        places = Places(self._problems, table.number - 1)
        names = table.condition_names
        try:
            held = sum(1 for _ in table.domain(names))
        except NoValueError as error:
            places.report("PW811", str(error), "where")
            return 0
        if not held:
            message = f"where leaves out all of {table.size_of(names):,} combinations"
            places.report("PW572", message, "where", "loosen a condition: no unit is left")
        return held

    def _check(self, table: SweepTable, choices: Mapping[str, Choice]) -> bool:
        """Whether keys have values for all combinations; reports it, and what is wrong with them.

        Names of files that are not there are reported, too, but are values.
        """
        left = {
            path: choice
            for path, choice in choices.items()
            if choice.has_templates or path in _LOOKED_UP
        }
        if not left:
            return True
        is_good = True
        names = frozenset(name for choice in left.values() for name in choice.names)
        for values in table.domain(names):
            effort = sum(len(choice.elements) for choice in left.values())
            self._require_effort(effort, table.number - 1, next(iter(left)))
            for path, choice in list(left.items()):
                if not self._is_value(table, path, choice, values):
                    del left[path]
                    is_good = False
            if self._problems.is_full or not left:
                return False
        return is_good

    def _is_value(self, table: SweepTable, path: str, choice: Choice, values: Values) -> bool:
        """Whether a key has a value for a combination; what is wrong with it is reported."""
        places = Places(self._problems, table.number - 1)
        try:
            rendered = choice.values(values)
        except NoValueError as error:
            places.report("PW811", f"{path}: {error}{for_values(values)}", path)
            return False
        if path in NUMBER_KEYS and not all(is_number(path, each) for each in rendered):
            places.report("PW572", number_expected(path) + for_values(values), path)
            return False
        for value in rendered if path in _LOOKED_UP else ():
            self._look_up(path, str(value), table.number - 1)
        return True

    def _look_up(self, key: str, name: str, number: int) -> None:
        """Finds what a name means, and reports it if that is nothing; each name once."""
        sources = self._sources
        if key == "files" and name not in sources.files:
            sources.files[name] = self._problems.files_of(name, number)
        elif key == "machines" and name not in sources.machines:
            sources.machines[name] = self._problems.machine(name, number) or ""
        elif key in PATHS and (key, name) not in self._required:
            self._required.add((key, name))
            self._problems.require_file(name, key, number)

    def _count_subjects(self, table: SweepTable) -> int:
        """How many files with kernels there are, in all combinations on which they depend.

        Reports PW208 for names of kernels that no file of the table has.
        """
        number = table.number - 1
        subjects = 0
        missing: dict[str, bool] = {}
        known: dict[str, None] = {}
        for values in table.domain(table.subject_names):
            names = table.kernels.texts(values)
            paths = [one for text in table.files.texts(values) for one in self._sources.files[text]]
            self._require_effort(len(paths) * max(len(names), 1), number, "files")
            subjects += sum(1 for _ in table.subjects(values, self._sources))
            for name in names:
                if missing.get(name, True):
                    missing[name] = not any(self._sources.has_kernel(path, name) for path in paths)
            if len(known) < _MOST_SUGGESTED and any(missing.values()):
                kernels = (self._sources.kernels_of(path) or () for path in paths)
                known |= dict.fromkeys(name for names in kernels for name in names)
            if subjects > MOST_UNITS:
                break
        for name in missing:
            if missing[name]:
                self._problems.report_kernel(name, list(known), number)
        return subjects


def _all_choices(table: SweepTable) -> Iterator[tuple[str, Choice]]:
    """What the keys of a table hold, with what they are called."""
    yield "files", table.files
    yield "kernels", table.kernels
    yield from table.choices.items()
    yield "launch", table.launches
    yield "memory_latency", table.latencies
    yield "machines", table.machines
    for key, choices in (("params", table.parameters), ("loop_bounds", table.loop_bounds)):
        yield from ((f"{key}.{name}", choice) for name, choice in choices.items())
