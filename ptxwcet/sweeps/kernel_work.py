"""The unit of a sweep: a kernel with a launch on a machine, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.bound.answers import KeptAnswer, answer_kernel, not_answered, summarise, whose
from ptxwcet.opened.inputs import KeyedRequest, machine_digests, text_digest
from ptxwcet.opened.request import Request
from ptxwcet.report.head import Refused
from ptxwcet.support.answer_store import KeptEntry, KeptFailure, pack
from ptxwcet.support.input_files import SuppliedInputs, noted_inputs, supplied_inputs
from ptxwcet.sweeps.cell import Ending, Result, Unit

WORK = "ptxwcet.sweeps.kernel_work:bound_unit"
_CODES = {
    Ending.DIED: ("PW801", "the process that analysed it died: "),
    Ending.MEMORY: ("PW802", "its analysis takes more memory than a unit may: "),
    Ending.SECONDS: ("PW803", "its analysis takes longer than a unit may: "),
    Ending.RAISED: ("PW901", "internal error: "),
}


def kernel_unit(number: int, keyed: KeyedRequest, supplied: SuppliedInputs) -> Unit:
    """Returns the unit of a request, with the contents of its files."""
    digests = {path: digest for path, digest in keyed.files if digest is not None}
    payload: dict[str, Any] = {
        "request": asdict(keyed.request),
        "files": digests,
        "absent": [path for path, digest in keyed.files if digest is None],
        "folder": supplied.folder,
        "machine": keyed.machine_digests,
    }
    shared = {digest: supplied.files[path] for path, digest in digests.items()}
    if keyed.request.text is not None:
        digest = text_digest(keyed.request.text)
        payload["request"] |= {"text": digest}
        shared[digest] = keyed.request.text.encode()
    return Unit(number, payload, shared)


def bound_unit(payload: Mapping[str, Any], shared: Mapping[str, bytes]) -> dict[str, Any]:
    """Returns the result of the unit's kernel: its row, and the whole answer as it is cached.

    The answer is None if another run might give another one. Only files sent with the unit are
    read. Raises MemoryError.
    """
    asked = dict(payload["request"])
    text = None if asked["text"] is None else shared[asked["text"]].decode()
    request = Request(**{**asked, "gpu": GridWishes(**asked["gpu"]), "text": text})
    files = {path: shared[digest] for path, digest in payload["files"].items()}
    with supplied_inputs(SuppliedInputs(files, payload["folder"])), noted_inputs() as asked_for:
        kept = answer_kernel(request)
        is_of_machine = machine_digests(request.machine) == payload["machine"]
    _require_memory(kept)
    if not is_of_machine:
        why = f"{whose(request)}: machine {request.machine} is not as it was when the sweep began"
        return {"summary": asdict(not_answered(request, "PW804", why, "failed")), "answer": None}
    absent = payload["absent"]
    more = sorted(asked_for - files.keys() - set(absent))
    if more:
        why = f"{whose(request)}: {more[0]} is asked for, and was not when the sweep began"
        return {"summary": asdict(not_answered(request, "PW804", why, "failed")), "answer": None}
    summary = summarise(request, kept)
    if not kept.is_lasting:
        return {"summary": asdict(replace(summary, outcome="failed")), "answer": None}
    return {"summary": asdict(summary), "answer": pack(kept.to_json())}


def kept_result(keyed: KeyedRequest, result: Result) -> KeptEntry | KeptFailure:
    """Returns the stored form of a result."""
    if result.ending is Ending.DONE:
        value = result.value
        if value["answer"] is None:
            return KeptFailure(keyed.key, value["summary"])
        return KeptEntry(keyed.key, value["summary"], value["answer"], result.seconds)
    code, what = _CODES[result.ending]
    return failure(keyed, code, what + result.why)


def failure(keyed: KeyedRequest, code: str, why: str) -> KeptFailure:
    """Returns the row of a request without an answer."""
    message = f"{whose(keyed.request)}: {why}"
    return KeptFailure(keyed.key, asdict(not_answered(keyed.request, code, message, "failed")))


def _require_memory(kept: KeptAnswer) -> None:
    """Raises MemoryError for an analysis without memory: with more it would have an answer."""
    answer = kept.answer
    if isinstance(answer, Refused) and any(
        problem.code == "PW901" and "MemoryError" in problem.message
        for problem in answer.diagnostics
    ):
        raise MemoryError
