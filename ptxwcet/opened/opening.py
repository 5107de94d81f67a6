"""Opening of requests, the same for all studies: file, facts and launch are read and resolved."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ptxwcet.bounds.analysed import PreparedKernel
from ptxwcet.bounds.carve_out import require_no_sizes
from ptxwcet.bounds.methods import SCHEDULED
from ptxwcet.bounds.wishes import require_use
from ptxwcet.flow.facts.asm_comments import find_marks
from ptxwcet.flow.facts.parameters import parse_parameters, refuse_alignment
from ptxwcet.flow.facts.placing import loops_at
from ptxwcet.flow.facts.stated import Place, StatedFacts, parse_loop_bounds
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.values.accesses import parameters_of
from ptxwcet.ir.kernel import MADE_CODE, Kernel, Module
from ptxwcet.machine.loader import machine_files
from ptxwcet.machine.model import Machine
from ptxwcet.opened.cuda_text import cuda_names, cuda_source
from ptxwcet.opened.front_ends import is_no_ptx, read_program, read_source
from ptxwcet.opened.launching import (
    SaidByFile,
    build_launch,
    foreign_names,
    what_others_have,
    with_launch_file,
)
from ptxwcet.opened.request import SOURCE, Request
from ptxwcet.pipeline import prepare_kernel
from ptxwcet.simulator.policies import Policy, find_policy
from ptxwcet.support.demangling import names_meant
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, internal_error
from ptxwcet.support.input_files import (
    MOST_DATA_BYTES,
    MOST_TEXT_BYTES,
    open_input,
    read_bytes,
    working_folder,
)
from ptxwcet.support.printable import printable_line
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile
from ptxwcet.support.toml_places import nearest

if TYPE_CHECKING:
    pass


_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RefusedKernel:
    """A kernel without a bound, and every reason."""

    kernel: Kernel
    diagnostics: tuple[Diagnostic, ...]


_Study = TypeVar("_Study")


@dataclass(frozen=True, slots=True)
class Answer(Generic[_Study]):
    """The results of a study for each requested kernel, or its refusal, in file order."""

    path: str
    sha256: str
    machine: Machine
    kernels: tuple[_Study | RefusedKernel, ...]

    @property
    def answered(self) -> tuple[_Study, ...]:
        """The kernels that are not refused."""
        return tuple(row for row in self.kernels if not isinstance(row, RefusedKernel))

    @property
    def refused(self) -> tuple[RefusedKernel, ...]:
        """The kernels that are refused."""
        return tuple(row for row in self.kernels if isinstance(row, RefusedKernel))


@dataclass(frozen=True, slots=True)
class ReadFile:
    """An input file of an answer: its role, its name, its SHA-256 in hexadecimal."""

    what: str
    name: str
    sha256: str

    @staticmethod
    def of(role: str, path: str) -> ReadFile:
        """Returns a file that has been read before; only the name of a path is kept."""
        digest = hashlib.sha256()
        with open_input(path, MOST_DATA_BYTES) as file:
            while part := file.read(1 << 20):
                digest.update(part)
        return ReadFile(role, Path(path).name, digest.hexdigest())


def refuse(kernel: Kernel, error: Exception) -> RefusedKernel:
    """Returns the refusal of a kernel whose analysis raised ``error``.

    Any other exception than PtxwcetError is a bug of ours (PW901): only this kernel is refused, the
    others of the file are answered.
    """
    if isinstance(error, PtxwcetError):
        return RefusedKernel(kernel, error.diagnostics)
    return RefusedKernel(kernel, (internal_error(error, f"kernel {kernel.readable}"),))


@dataclass(frozen=True, slots=True)
class Opened:
    """A resolved request: its kernels, and the statements on their launch.

    ``request`` has the kernel of its launch file, if it names one, in place of the file.
    """

    request: Request
    sha256: str
    module: Module
    facts: StatedFacts
    said_by_file: SaidByFile
    kernels: tuple[Kernel, ...]

    @property
    def grid(self) -> str | None:
        """The blocks of the grid as text; None if unknown."""
        given = self.said_by_file.grid
        return self.request.grid if given is None else "x".join(map(str, given))

    def facts_of(self, kernel: Kernel) -> StatedFacts:
        """Returns the facts that are stated about a kernel."""
        return self.facts.of_kernel(kernel.name)

    def launch_of(self, kernel: Kernel, facts: StatedFacts | None = None) -> Launch:
        """Returns the launch of a kernel, with its stated facts or others.

        Raises PtxwcetError (PW209 to PW215).
        """
        own = self.facts_of(kernel) if facts is None else facts
        return build_launch(kernel, self.request, own, self.said_by_file)

    def launch_not_bounded(self, kernel: Kernel) -> Launch:
        """Returns the launch of a kernel, for studies without bounds.

        Raises PtxwcetError: PW209 to PW215, PW326 (arrays in persisting L2).
        """
        launch = self.launch_of(kernel)
        require_no_sizes(launch, kernel.span)
        return launch

    def launch_of_paths(self, kernel: Kernel) -> Launch:
        """Returns the launch of a kernel, for studies of the paths of warps only.

        Raises PtxwcetError as :meth:`launch_not_bounded`, and PW214 for an option that states the
        alignment of a pointer.
        """
        for fact in parse_parameters(self.request.parameters):
            refuse_alignment(fact)
        return self.launch_not_bounded(kernel)

    def whole(self, kernel: Kernel) -> Kernel:
        """Returns a kernel with functions in the place of their calls."""
        return inline_calls(kernel, self.module)

    def names_of(self, kernel: Kernel) -> dict[str, str]:
        """Returns the CUDA names of parameters, by PTX name; PTX's own names without a source."""
        called = cuda_names(kernel, self.request)
        return {one.name: called.get(one.name, one.name) for one in parameters_of(kernel)}

    def each(self, study: Callable[[Kernel], _Study]) -> tuple[_Study | RefusedKernel, ...]:
        """Returns the result of a study for each kernel; an exception refuses only its kernel."""
        answers: list[_Study | RefusedKernel] = []
        for kernel in self.kernels:
            try:
                _LOGGER.info("kernel %s: under way", printable_line(kernel.readable))
                answers.append(study(kernel))
                _LOGGER.info("kernel %s: answered", kernel.name)
            except Exception as error:
                answers.append(refuse(kernel, error))
                _LOGGER.info("kernel %s: refused", kernel.name)
        return tuple(answers)


def open_request(request: Request, module: Module | None = None) -> Opened:
    """Reads the files of a request; ``module`` is its PTX if that has been parsed before.

    Raises PtxwcetError for input that concerns no single kernel. Cost: linear in the file.
    """
    program = read_module(request) if module is None else module
    _LOGGER.info("%s: read, %d kernels", printable_line(request.path), len(program.kernels))
    facts = state_facts(request, program)
    request, stated = with_launch_file(request, program, facts)
    require_uses(request, has_grid=request.grid is not None or stated.grid is not None)
    kernels = select_kernels(program.kernels, request.kernels, request.path)
    named = {one.name for one in (*facts.parameters, *facts.arrays) if one.kernel is None}
    places = {loop.place for loop in facts.loops if loop.kernel is None}
    foreign: frozenset[tuple[str, str | Place]] = foreign_names(request, kernels, named)
    if places and len(kernels) > 1:
        elsewhere = what_others_have(_loops_of(program, kernels, places))
        foreign |= elsewhere
    facts = replace(facts, foreign=foreign)
    return Opened(request, digest_of(request), program, facts, stated, tuple(kernels))


def _loops_of(
    module: Module, kernels: Iterable[Kernel], places: Collection[Place]
) -> dict[str, set[Place]]:
    """Returns those of some places at which each kernel has loops; a bound that is given for
    several kernels applies to those with the loop.
    """
    own: dict[str, set[Place]] = {}
    for kernel in kernels if places else ():
        try:
            flow = ControlFlow.of(inline_calls(kernel, module))
        except Exception:  # the kernel's bound will report the reason
            continue
        own[kernel.name] = {place for place in places if loops_at(flow, place)}
    return own


def loops_named(
    module: Module, kernels: Iterable[Kernel], texts: Iterable[str]
) -> dict[str, set[str]]:
    """Returns the labels or lines, as plans write them, at which each kernel has loops. An invalid
    place is in no kernel; its reader reports the reason.
    """
    places: dict[Place, list[str]] = {}
    for text in texts:
        with suppress(PtxwcetError):
            (fact,) = parse_loop_bounds([f"{text}=1"])
            places.setdefault(fact.place, []).append(text)
    return {
        kernel: {text for place in found for text in places[place]}
        for kernel, found in _loops_of(module, kernels, places).items()
    }


def require_uses(request: Request, *, has_grid: bool) -> None:
    """Raises PtxwcetError (PW327) for options of the GPU without effect."""
    ptxas = {"ptxas_info": request.ptxas_info, "registers": request.asks_ptxas}
    if request.links and any(ptxas.values()):
        message = "ptxas sees one file: of a linked kernel it does not know all registers"
        help_text = "say them: nvlink prints them ('nvcc -rdc=true -Xnvlink -v'), --registers N"
        raise PtxwcetError(Diagnostic("PW327", message, help=help_text))
    require_use(request.gpu, *(name for name, value in ptxas.items() if value), has_grid=has_grid)


def prepared_kernel(opened: Opened, kernel: Kernel, machine: Machine) -> PreparedKernel:
    """Prepares the paths of a requested kernel's warps on a machine. Raises PtxwcetError."""
    return prepare_kernel(
        opened.whole(kernel),
        opened.launch_not_bounded(kernel),
        machine,
        opened.facts_of(kernel),
        unknown_at_worst=opened.request.unknown_at_worst,
    )


def read_module(request: Request, *, for_graph: bool = False) -> Module:
    """Returns the PTX of a request, parsed and linked; reports its warnings. Raises PtxwcetError.

    ``for_graph``: as views of the graph show it.
    """
    sources = sources_of(request)
    return warned_of(read_program(*sources, for_graph=for_graph, is_code=request.is_code))


def sources_of(request: Request) -> tuple[SourceFile, ...]:
    """Reads the PTX of a request, and the files linked with it. Raises PtxwcetError (PW112)."""
    if request.text is None:
        main = read_source(request.path)
    else:
        prefix = MADE_CODE if request.is_code else "PTX of "
        is_cuda = Path(request.path).suffix.lower() == SOURCE
        source = cuda_source(replace(request, source=None)) if is_cuda else None
        written = None if source is None else SourceFile(request.path, source.text)
        # line numbers are relative to the text, not to the file
        is_made = is_cuda or Path(request.path).is_file()
        name = f"{prefix if is_made else ''}{request.path}"
        main = SourceFile(name, request.text, made_of=written, how=request.how)
    return main, *map(read_source, request.links)


def warned_of(module: Module) -> Module:
    """Returns the module after its warnings are reported; a command reports each one once."""
    for warning in module.warnings:
        _LOGGER.warning("%s", warning.render())
    return module


def digest_of(request: Request) -> str:
    """Returns the SHA-256 of the PTX of a request, in hexadecimal: of all files in sequence."""
    whole = hashlib.sha256()
    if request.text is not None:
        whole.update(request.text.encode())
    for path in (*((request.path,) if request.text is None else ()), *request.links):
        whole.update(read_bytes(path, MOST_TEXT_BYTES))
    return whole.hexdigest()


def file_digest(path: str) -> str:
    """Returns the SHA-256 of the bytes of a file that has been read before, in hexadecimal."""
    return hashlib.sha256(read_bytes(path, MOST_TEXT_BYTES)).hexdigest()


def state_facts(request: Request, module: Module) -> StatedFacts:
    """Returns all facts of options, facts file and the PTX's comments on the file's kernels.

    A fact that cannot be read because of an internal error refuses the kernels that it may concern:
    see UnreadFact. Raises PtxwcetError: PW213, PW216 (options), PW240 to PW245 (facts file), PW248,
    PW249 (comments).
    """
    named = (request, *map(Request, request.links))
    marked = [
        find_marks(file, cuda_source(owner))
        for owner, file in zip(named, module.files or (module,), strict=True)
    ]
    options = StatedFacts(
        loops=parse_loop_bounds(request.loop_bounds),
        parameters=parse_parameters(request.parameters),
        marks=tuple(mark for marks, _ in marked for mark in marks),
        unread=tuple(owner for _, unread in marked for owner in unread),
    )
    if request.facts_file is None:
        return options
    # imported here: only requests with a facts file need it
    from ptxwcet.flow.facts.files import read_flow_facts

    names = [kernel.name for kernel in module.kernels]
    file = read_flow_facts(request.facts_file, digest_of(request), names)
    return replace(
        file,
        loops=(*options.loops, *file.loops),
        parameters=(*options.parameters, *file.parameters),
        marks=options.marks,
        unread=(*options.unread, *file.unread),
    )


def find_named_policy(request: Request) -> Policy | None:
    """Returns the policy that the request names, or None. Raises PtxwcetError (PW530, PW536)."""
    if request.policy is not None:
        return find_policy(request.policy)
    if request.method == SCHEDULED:
        raise PtxwcetError(
            Diagnostic(
                "PW536",
                "the method scheduled needs to know the scheduling policy",
                help="name it, for example --policy gto",
            )
        )
    return None


def select_kernels(kernels: Sequence[Kernel], names: Sequence[str], path: str) -> list[Kernel]:
    """Returns the named kernels, or all. Raises PtxwcetError (PW208) if there is no such kernel.

    A name is the name in the PTX, or else the readable name of a mangled one.
    """
    bodies = [kernel for kernel in kernels if kernel.has_body]
    meant = {name: names_meant(name, (body.name for body in bodies)) for name in names}
    missing = [name for name, found in meant.items() if not found]
    if missing or not bodies:
        listed = ", ".join(kernel.readable for kernel in bodies) or "none"
        known = (name for kernel in bodies for name in (kernel.readable, kernel.name))
        near = nearest(missing[0], known) if missing else ""
        what = f"{path} has no kernel {missing[0]!r}" if missing else f"{path} has no kernel"
        raise PtxwcetError(
            Diagnostic(
                "PW208",
                what,
                notes=(f"its kernels: {listed}",),
                help=f"{near}a kernel is an .entry with a body; --kernel names one",
            )
        )
    chosen = {one for found in meant.values() for one in found}
    return [kernel for kernel in bodies if not names or kernel.name in chosen]


def recent_module(request: Request) -> Module:
    """Returns the PTX of a request, parsed anew only if it changed or was not among the last ones.

    Raises PtxwcetError. Cost: the file is read.
    """
    main, *linked = sources_of(request)
    files = tuple((one.name, one.text) for one in (main.made_of, main, *linked) if one is not None)
    is_made = main.made_of is not None
    return warned_of(_parsed(files, working_folder(), request.is_code, is_made, main.how))


@lru_cache(maxsize=4)
def _parsed(
    files: tuple[tuple[str, str], ...], folder: str, is_code: bool, is_made: bool, how: str
) -> Module:
    # Keyed by texts, not by digests: a file may have changed when it is read again; names of files
    # are shown relative to the folder.
    sources = [SourceFile(*file) for file in files]
    written = sources.pop(0) if is_made else None
    sources[0] = replace(sources[0], made_of=written, how=how)
    return read_program(*sources, is_code=is_code)


# --- The files that an answer rests on, with their digests ----------------------------------------


def files_of(request: Request, answer: Answer[Any]) -> tuple[ReadFile, ...]:
    """Returns the files that an answer rests on, each with its digest.

    Files have been read before. Cost: linear in their sizes.
    """
    beside = Path(request.path).with_suffix(".cu")
    source = request.source or (str(beside) if request.text is None and beside.is_file() else None)
    was_made = request.text is not None and Path(request.path).is_file()
    kind = "machine code" if request.is_code or is_no_ptx(request.path) else "PTX"
    own, *extended = machine_files(request.machine)
    others: tuple[tuple[str, str | None], ...] = (
        (f"what the {kind} was made or taken from", request.path if was_made else None),
        ("machine", str(own)),
        *(("extended machine", str(path)) for path in extended),
        ("CUDA source", source),
        ("launch file", request.launch_file),
        ("facts", request.facts_file),
        ("ptxas output", request.ptxas_info),
    )
    own_digest = digest_of(replace(request, links=()))
    for path in request.links:
        beside = Path(path).with_suffix(".cu")
        others += (("linked PTX", path), ("CUDA source", str(beside) if beside.is_file() else None))
    ptx = ReadFile(kind, answer.path, own_digest)
    return (ptx, *(ReadFile.of(what, path) for what, path in others if path is not None))
