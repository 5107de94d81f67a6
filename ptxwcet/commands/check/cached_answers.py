"""The answers to many requests: those that a folder keeps, the others analysed and kept there.

An answer is kept under the key of the bytes that were analysed, or not at all: the files are read
once more, compared with the key's digests, and supplied to the analysis from memory. Where one has
changed meanwhile, or is asked for and not in the key, the answer is that of the files as they are,
and is not kept. Nor is what says more of the computer than of the input: see KeptAnswer.is_lasting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxwcet.commands.bound.answers import KeptAnswer, answer_kernel, kept_entry
from ptxwcet.commands.check.workers import run_each
from ptxwcet.opened.inputs import (
    ChangedFile,
    Inputs,
    KeyedRequest,
    machine_digests,
    read_unchanged,
)
from ptxwcet.opened.request import Request
from ptxwcet.report.reading import NotAReport
from ptxwcet.support.answer_store import AnswerStore
from ptxwcet.support.input_files import noted_inputs, supplied_inputs


@dataclass(frozen=True, slots=True)
class KeyedAnswer:
    """An answer, the seconds that it took, and whether it is that of the request's key."""

    kept: KeptAnswer
    seconds: float
    is_of_key: bool


def cached_answers(
    requests: Sequence[Request],
    folder: Path,
    workers: int,
    progress: Callable[[int, int], None],
) -> list[KeptAnswer | None]:
    """The answer to each request for one kernel; None where its process died of it.

    ``progress`` is told how many there are, of how many. Raises PtxwcetError (PW825) for a folder
    that cannot be used. Cost: that of the bounds that are not kept; all PTX is parsed.
    """
    with AnswerStore(folder) as store:
        inputs = Inputs()
        keyed = [inputs.keyed(request) for request in requests]
        answers = [_found(store, one.key) for one in keyed]
        missing = [number for number, answer in enumerate(answers) if answer is None]
        ready = len(answers) - len(missing)

        def take(place: int, answer: KeyedAnswer) -> None:
            one = keyed[missing[place]]
            answers[missing[place]] = answer.kept
            if answer.is_of_key and answer.kept.is_lasting:
                store.add([kept_entry(one.key, one.request, answer.kept, answer.seconds)])

        run_each(
            answer_keyed,
            [keyed[number] for number in missing],
            workers,
            lambda done, _: progress(ready + done, len(answers)),
            take,
        )
    return answers


def answer_keyed(keyed: KeyedRequest) -> KeyedAnswer:
    """What comes of a request, of the files of its key if they still are as they were."""
    start = time.perf_counter()
    try:
        with supplied_inputs(read_unchanged(keyed)), noted_inputs() as asked:
            kept = answer_kernel(keyed.request)
        is_of_key = asked <= {path for path, _ in keyed.files}
        is_of_key &= machine_digests(keyed.request.machine) == keyed.machine_digests
    except (ChangedFile, MemoryError):
        is_of_key = False
    if not is_of_key:
        kept = answer_kernel(keyed.request)
    return KeyedAnswer(kept, time.perf_counter() - start, is_of_key)


def _found(store: AnswerStore, key: str) -> KeptAnswer | None:
    """The answer that is kept; None where there is none, or not one of this form."""
    data = store.answer(key)
    if data is None:
        return None
    try:
        return KeptAnswer.from_json(data)
    except NotAReport:
        return None
