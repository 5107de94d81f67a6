"""All schedules of a machine that asks at each open place which of several goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class _Script:
    """The choices of a run: those that are given, then the first at each further place."""

    def __init__(self, choices: list[int]) -> None:
        self.choices, self.options = choices, list[int]()

    def choose(self, count: int) -> int:
        self.options.append(count)
        if len(self.options) > len(self.choices):
            self.choices.append(0)
        return self.choices[len(self.options) - 1]


def all_choices() -> Iterator[Callable[[int], int]]:
    """Yields for each schedule in turn the function that chooses one of so many.

    The run has ended, or was given up, before the next one is asked for.
    """
    choices: list[int] = []
    while True:
        script = _Script(choices)
        yield script.choose
        del choices[len(script.options) :]
        while choices and choices[-1] + 1 == script.options[len(choices) - 1]:
            choices.pop()
        if not choices:
            return
        choices[-1] += 1
