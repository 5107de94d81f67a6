"""The unit of a sweep: a kernel with a launch on a machine, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ptxwcet.campaign.work import Ending, Result, Unit
from ptxwcet.compose.wishes import GridWishes
from ptxwcet.report.answers import KeptAnswer, answer_kernel, not_answered, summarise, whose
from ptxwcet.report.head import Refused
from ptxwcet.studies.inputs import KeyedRequest
from ptxwcet.studies.request import Request
from ptxwcet.support.answer_store import KeptEntry, KeptFailure
from ptxwcet.support.input_files import SuppliedInputs, supplied_inputs

WORK = "ptxwcet.campaign.kernel_work:bound_unit"
_CODES = {
    Ending.DIED: ("PW801", "the process that analysed it died: "),
    Ending.MEMORY: ("PW802", "its analysis takes more memory than a unit may: "),
    Ending.SECONDS: ("PW803", "its analysis takes longer than a unit may: "),
    Ending.RAISED: ("PW901", "internal error: "),
}


def kernel_unit(number: int, keyed: KeyedRequest, supplied: SuppliedInputs) -> Unit:
    """The unit of a request, with the contents of its files."""
    digests = {path: digest for path, digest in keyed.files if digest is not None}
    payload = {"request": asdict(keyed.request), "files": digests, "folder": supplied.folder}
    shared = {digest: supplied.files[path] for path, digest in digests.items()}
    return Unit(number, payload, shared)


def bound_unit(payload: Mapping[str, Any], shared: Mapping[str, bytes]) -> dict[str, Any]:
    """What comes of the unit's kernel: the row of it, and the whole answer (:class:`KeptAnswer`).

    Nothing is read but the files that came with it. Raises MemoryError.
    """
    asked = dict(payload["request"])
    request = Request(**{**asked, "gpu": GridWishes(**asked["gpu"])})
    files = {path: shared[digest] for path, digest in payload["files"].items()}
    with supplied_inputs(SuppliedInputs(files, payload["folder"])):
        kept = answer_kernel(request)
    _require_memory(kept)
    return {"summary": asdict(summarise(request, kept)), "answer": kept.to_json()}


def kept_result(keyed: KeyedRequest, result: Result) -> KeptEntry | KeptFailure:
    """What is written of a result."""
    if result.ending is Ending.DONE:
        value = result.value
        return KeptEntry(keyed.key, value["summary"], value["answer"], result.seconds)
    code, what = _CODES[result.ending]
    return failure(keyed, code, what + result.why)


def failure(keyed: KeyedRequest, code: str, why: str) -> KeptFailure:
    """The row of a request without an answer."""
    message = f"{whose(keyed.request)}: {why}"
    return KeptFailure(keyed.key, asdict(not_answered(keyed.request, code, message, "failed")))


def _require_memory(kept: KeptAnswer) -> None:
    """An analysis that ran out of memory has no answer: with more it would have one."""
    answer = kept.answer
    if isinstance(answer, Refused) and any(
        problem.code == "PW901" and "MemoryError" in problem.message
        for problem in answer.diagnostics
    ):
        raise MemoryError
