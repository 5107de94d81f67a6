"""`support.records.dataclass` against the standard library's, on classes drawn at random."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ptxwcet.support import records

pytestmark = pytest.mark.fast
OURS: Callable[..., Any] = records.dataclass


def options(draw: random.Random) -> dict[str, bool]:
    return {name: draw.random() < 0.5 for name in ("eq", "repr", "frozen", "slots")}


def fields(draw: random.Random, prefix: str, with_default: bool) -> Iterator[tuple[str, object]]:
    for number in range(draw.randrange(4)):
        with_default = with_default or draw.random() < 0.4
        shown = {"compare": draw.random() < 0.8, "repr": draw.random() < 0.8}
        if with_default:
            default = draw.choice([{"default": 7}, {"default_factory": list}])
            init = draw.random() < 0.8
            yield f"{prefix}{number}", dataclasses.field(init=init, **default, **shown)
        elif draw.random() < 0.5:
            yield f"{prefix}{number}", dataclasses.field(**shown)
        else:
            yield f"{prefix}{number}", None


def classes(seed: int) -> list[type]:
    """One class with a base, by the standard library and by us."""
    made = []
    for decorate in (dataclasses.dataclass, OURS):
        draw = random.Random(seed)
        chosen = options(draw)
        of_base = list(fields(draw, "a", with_default=False))
        of_class = list(fields(draw, "b", with_default=bool(of_base)))
        checks = draw.random() < 0.3
        base, result = None, None
        for name, given in (("Base", of_base), ("Made", of_class)):
            body: dict[str, Any] = {key: value for key, value in given if value is not None}
            body |= {"__annotations__": {key: "object" for key, _ in given}, "__doc__": "One."}
            body |= {"__module__": __name__}
            if checks and name == "Made":
                body["__post_init__"] = lambda self: seen.append(type(self).__name__)
            bases = () if base is None else (base,)
            result = types.new_class(name, bases, {}, lambda space, body=body: space.update(body))
            result.__qualname__ = name
            result = decorate(**chosen)(result)
            base = result
        assert result is not None
        made.append(result)
    return made


seen: list[str] = []


def outcome(action: Callable[[], object]) -> object:
    try:
        return action()
    except (TypeError, AttributeError) as error:
        return type(error), type(error) is TypeError or str(error)


def about(cls: type, given: dict[str, Any], other: dict[str, Any]) -> list[object]:
    names = [one.name for one in dataclasses.fields(cls)]
    made, again, unlike = cls(**given), cls(*given.values()), cls(**other)
    frozen = [
        outcome(lambda name=name: setattr(made, name, 5))  # type: ignore[misc]
        for name in names
    ]
    return [
        [getattr(made, name) for name in names],
        made == again,
        made == unlike,
        made != unlike,
        made == 3,
        repr(made) if "__repr__" in cls.__dict__ else None,
        cls.__hash__ is None,
        outcome(lambda: hash(made) == hash(again)),
        outcome(lambda: hash(made) == hash(unlike)),
        outcome(lambda: {made, again, unlike} and len({made, again, unlike})),
        frozen,
        outcome(lambda: delattr(made, names[0])) if names else None,
        [getattr(again, name) for name in names],
        vars(copy.copy(again)) if hasattr(again, "__dict__") else None,
        [getattr(copy.deepcopy(again), name) for name in names],
        outcome(lambda: cls(no_field=1)),
        outcome(lambda: cls(*range(9))),
        cls.__match_args__,  # type: ignore[attr-defined]
        hasattr(again, "__dict__"),
    ]


def test_classes_behave_as_those_of_the_standard_library() -> None:
    for seed in range(150):
        theirs, ours = classes(seed)
        names = [one.name for one in dataclasses.fields(theirs)]
        assert names == [one.name for one in dataclasses.fields(ours)]
        arguments = [one.name for one in dataclasses.fields(theirs) if one.init]
        values = random.Random(seed)
        for _ in range(3):
            given = {name: values.choice([1, 2, (3,)]) for name in arguments}
            other = {name: values.choice([1, 2, (3,)]) for name in arguments}
            seen.clear()
            expected = about(theirs, dict(given), other)
            checked = len(seen)
            assert about(ours, dict(given), other) == expected, (seed, given, other)
            assert len(seen) == 2 * checked


@OURS(frozen=True, slots=True)
class Point:
    x: int
    y: list[int] = dataclasses.field(default_factory=list, compare=False)


def test_values_are_frozen_and_pickled() -> None:
    point = Point(1, [2])  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    again = pickle.loads(pickle.dumps(point))
    assert again == point
    assert again.y == [2]
    assert dataclasses.replace(point, x=4).x == 4
    assert Point(1).y is not Point(1).y  # type: ignore[call-arg]


def test_a_method_of_the_author_stays_when_it_calls_that_of_its_base() -> None:
    class Loud(Point):
        def __eq__(self, other: object) -> bool:
            return not super().__eq__(other)

        __hash__ = Point.__hash__

    one, two = Loud(1), Loud(1)  # type: ignore[call-arg]
    assert [one == two, one == two] == [False, False]
    assert hash(one) == hash(two)


def test_options_that_are_not_known_are_refused() -> None:
    with pytest.raises(TypeError, match="order"):
        OURS(order=True)(type("Ordered", (), {}))
