"""The files that an answer depends on, and the key of cached answers.

A key is the SHA-256 of everything that an answer depends on: the fields of the request, the bytes
of every file that is read for it, the installation. Two requests with the same key have the same
answer; a changed kernel, fact, machine or version of the tool gives another key.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ptxwcet.bounds.wishes import ANY_GRID, GridWishes
from ptxwcet.flow.facts.parameters import ARRAY_SIZE
from ptxwcet.machine.loader import load_machine, machine_files
from ptxwcet.opened.front_ends import FRONT_ENDS
from ptxwcet.opened.opening import open_request, recent_module
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes
from ptxwcet.support.input_files import (
    MOST_DATA_BYTES,
    SuppliedInputs,
    is_supplied,
    noted_inputs,
    read_bytes,
    working_folder,
)
from ptxwcet.support.installation import describe_installation, describe_sources
from ptxwcet.support.plugins import GROUPS, Plugin, plugins
from ptxwcet.support.records import dataclass
from ptxwcet.support.version import VERSION

UNREADABLE = "unreadable"
"""In the place of a digest: why, may be the computer's, so that no answer rests on it."""

_FIELDS = tuple(field.name for field in fields(Request))
_WISHES = tuple(field.name for field in fields(GridWishes))
_LIBRARIES = ("bitwuzla", "lark", "numba", "numpy")
_KEPT_BYTES = 64 << 20
_READ = frozenset((".py", ".toml"))


@cache
def describe_here() -> Mapping[str, str]:
    """Returns the inputs of answers besides the request's, by name: versions and digests.

    Two installations with equal descriptions give the same answers. ``sources`` are the package's
    Python sources, ``data`` its grammar and machines; libraries are those that analyses call,
    including the interpreter (None). Cost: the package is read once per process.
    """
    digests = describe_installation()[1]
    whole = hashlib.sha256("".join(one.rules() for one in FRONT_ENDS).encode())
    whole.update(json.dumps(dict(digests), sort_keys=True).encode())
    description = {"ptxwcet": VERSION, "sources": describe_sources(), "data": whole.hexdigest()}
    for name in _LIBRARIES:
        description[name] = _version(name)
    for group in GROUPS:
        for plugin in plugins(group):
            told = (plugin.package, _version(plugin.package), _sources_of(plugin))
            description[f"{group}: {plugin.name}"] = " ".join(told)
    return description


def _sources_of(plugin: Plugin) -> str:
    """Returns the digest of the sources and machines of a plugin's package, which is not imported.

    While a package is being written its version does not change. A single module has no machines
    except in its folder, which may hold other files: they have the key's own digest.
    """
    name = plugin.entry.module.partition(".")[0]
    try:
        found = find_spec(name)
        folders = [] if found is None else list(found.submodule_search_locations or ())
        files = [path for one in folders for path in Path(one).rglob("*") if path.suffix in _READ]
        if found is not None and not folders and found.origin is not None:
            files.append(Path(found.origin))
        whole = hashlib.sha256()
        for digest in sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in files):
            whole.update(digest.encode())
    except (OSError, ImportError, ValueError, AttributeError):
        return UNREADABLE
    return whole.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request with the key of its answer, and the digests of its inputs, in hexadecimal.

    ``files`` are all requested paths, with the SHA-256 of their content (None: missing; UNREADABLE:
    cannot be read). ``machine_digests`` are of the machine's file and of the files that it extends
    (:func:`machine_digests`).
    """

    request: Request
    key: str
    files: tuple[tuple[str, str | None], ...]
    machine_digests: str

    @property
    def machine_sha256(self) -> str:
        """The digest of the machine's file, empty if it cannot be read."""
        return self.machine_digests.partition(" ")[0]

    @property
    def file_sha256(self) -> str:
        """The digest of the PTX; empty if it is not there, or cannot be read."""
        digest = dict(self.files).get(self.request.path)
        return "" if digest is None or digest == UNREADABLE else digest


def machine_digests(name: str) -> str:
    """Returns the digests of a machine's file and of those that it extends; empty if unreadable.

    Files of a package are read from there, also if inputs are supplied: the cache compares them
    after the analysis with those of the key.
    """
    try:
        return " ".join(
            hashlib.sha256(_machine_bytes(path)).hexdigest() for path in machine_files(name)
        )
    except Exception:  # loading it will report the reason
        return ""


def _machine_bytes(path: Path) -> bytes:
    if is_supplied(path):
        return read_bytes(path, MOST_DATA_BYTES)
    return path.read_bytes()


@lru_cache(maxsize=256)  # called again for every unit of a sweep
def text_digest(text: str) -> str:
    """Returns the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=256)
def _names(folder: str, text: str) -> bool:
    return os.fsencode(folder) in text.encode("utf-8", "surrogatepass")


class ChangedFile(Exception):
    """A file is not there any more, or not as it was, or cannot be read: its path."""


def read_unchanged(keyed: KeyedRequest) -> SuppliedInputs:
    """Returns the files of a request, if they still are as they were when its key was made.

    Raises ChangedFile. Cost: all are read.
    """
    files = {path: _unchanged(path, digest) for path, digest in keyed.files if digest is not None}
    return SuppliedInputs(files, working_folder())


def _unchanged(path: str, digest: str) -> bytes:
    try:
        data = read_bytes(path, MOST_DATA_BYTES)
    except (OSError, ValueError):
        raise ChangedFile(path) from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise ChangedFile(path)
    return data


class Inputs:
    """The files of many requests, each read once for its digest; contents on demand.

    It is not thread-safe. Memory: a digest for each file, and the most recently used contents.
    """

    def __init__(self) -> None:
        self._installation = json.dumps(describe_here(), sort_keys=True)
        self._folder = working_folder()
        self._paths: dict[Request, tuple[str, ...]] = {}
        self._digests: dict[str, str | None] = {}
        self._machines: dict[str, str] = {}
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._names_folder: dict[str, bool] = {}

    def keyed(self, request: Request) -> KeyedRequest:
        """Returns the request with its key. Cost: files are searched for once for similar requests.

        Unreadable files are not errors here: the analysis reports them.
        """
        files = tuple((path, self._digest(path)) for path in self._paths_of(request))
        machine = self._machine(request.machine)
        # as asdict, but without copies of all values: this runs for every unit of a sweep
        asked = {name: getattr(request, name) for name in _FIELDS}
        asked["gpu"] = [getattr(request.gpu, name) for name in _WISHES]
        names_folder = any(map(self._names_folder.get, dict(files)))
        if request.text is not None:
            asked["text"] = text_digest(request.text)
            names_folder |= _names(self._folder, request.text)
        whole = {
            "asked": asked,
            "files": files,
            "machine": machine,
            "installation": self._installation,
            # names of files are shown relative to this folder
            "folder": self._folder if names_folder else None,
            "ptxas": _ptxas() if request.asks_ptxas else None,
        }
        key = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
        return KeyedRequest(request, key, files, machine)

    def supplied(self, keyed: KeyedRequest) -> SuppliedInputs:
        """Returns the files of a request as of the time of its key. Raises ChangedFile."""
        files = {
            path: self._content(path, digest) for path, digest in keyed.files if digest is not None
        }
        return SuppliedInputs(files, self._folder)

    def _paths_of(self, request: Request) -> tuple[str, ...]:
        """Returns the paths of a request; they depend on file names, not on sizes and numbers."""
        alike = replace(
            request,
            **dict.fromkeys(("block", "grid"), "1" if request.launch_file is None else None),
            # an array's file is opened to compare it with a stated size
            parameters=tuple(one for one in request.parameters if ARRAY_SIZE in one),
            loop_bounds=(),
            memory_latency_cycles=None,
            policy=None,
            method="safe",
            gpu=ANY_GRID,
            asks_ptxas=False,
        )
        if alike not in self._paths:
            self._paths[alike] = tuple(sorted(_asked_for(alike)))
        return self._paths[alike]

    def _machine(self, name: str) -> str:
        if name not in self._machines:
            self._machines[name] = machine_digests(name)
        return self._machines[name]

    def _digest(self, path: str) -> str | None:
        if path not in self._digests:
            try:
                data = read_bytes(path, MOST_DATA_BYTES)
            except FileNotFoundError:
                self._digests[path] = None
            except (OSError, ValueError):
                self._digests[path] = UNREADABLE
            else:
                self._digests[path] = self._keep(path, data)
                self._names_folder[path] = os.fsencode(self._folder) in data
        return self._digests[path]

    def _content(self, path: str, digest: str) -> bytes:
        if path in self._contents:
            self._contents.move_to_end(path)
            return self._contents[path]
        data = _unchanged(path, digest)
        self._keep(path, data)
        return data

    def _keep(self, path: str, data: bytes) -> str:
        self._contents[path] = data
        held = sum(map(len, self._contents.values()))
        while held > _KEPT_BYTES and len(self._contents) > 1:
            held -= len(self._contents.popitem(last=False)[1])
        return hashlib.sha256(data).hexdigest()


def _asked_for(request: Request) -> set[str]:
    """Returns the paths of all input files that answering a request may read."""
    with noted_inputs() as noted:
        try:
            load_machine(request.machine)
            opened = open_request(request, recent_module(request))
            for kernel in opened.kernels:
                opened.names_of(kernel)
            wishes = Wishes(opened.request)
            for kernel in opened.kernels:
                wishes.of(kernel)
        except Exception:  # answering the request will report the reason
            noted.add(request.path)
            named = (request.source, request.launch_file, request.facts_file, request.ptxas_info)
            noted.update(path for path in (*named, *request.links) if path is not None)
    return noted


def _ptxas() -> str | None:
    """Returns the digest of the ptxas on the PATH, None without one."""
    program = shutil.which("ptxas")
    return None if program is None else hashlib.sha256(Path(program).read_bytes()).hexdigest()
