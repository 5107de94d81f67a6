"""Every command: its heading in ``--help``, its module, and its summary.

A command of two words belongs to the first: ``validate FILE`` and ``validate attack``.
"""

from __future__ import annotations

import glob
import importlib
import os
from collections.abc import Iterator
from difflib import get_close_matches

import click
from click.shell_completion import CompletionItem

HEADINGS = {
    "Bounds": {
        "bound": ("commands.bound.command", "Bound kernels: a block, and the launch."),
        "annotate": ("commands.annotate.command", "Their code, with what each line costs."),
        "annotate phases": ("commands.annotate.phases", "When one warp works, and when it idles."),
        "annotate ports": ("commands.annotate.ports", "What an iteration takes of the units."),
        "report": ("commands.page.command", "A page about a bound: source, graph, pictures."),
        "report dossier": ("dossier.command", "All that an argument about a kernel rests on."),
        "what-if": ("commands.what_if.command", "The bounds on machines with other figures."),
        "facts": ("commands.facts.command", "A template of what is not known of a launch yet."),
        "sequence": ("commands.sequence.command", "Launches one after the other."),
    },
    "Projects": {
        "check": ("commands.check.command", "All kernels of a plan, against their budgets."),
        "compare": ("commands.compare.command", "Two versions of a kernel, or two results."),
    },
    "Sweeps": {
        "sweep": ("sweeps.command", "Every combination of files, launches and machines."),
        "sweep report": ("sweeps.results.command", "What a sweep has found."),
    },
    "What is inside": {
        "cfg": ("commands.cfg.command", "The control-flow graph."),
        "memory": ("commands.memory.command", "What each access takes of memory, and why."),
        "explain": ("commands.explain.command", "What a diagnostic means, and what to do."),
        "explain schema": ("commands.explain.schema", "The JSON schema of a report."),
    },
    "Runs on simulated machines": {
        "run": ("commands.run.command", "Execute a launch on data, without a GPU."),
        "simulate": ("commands.simulate.command", "Run a block cycle by cycle."),
        "simulate launch": ("commands.trace.command", "Time a whole launch, and write its trace."),
        "simulate warmup": ("validate.warmup_command", "Compile the simulators now, once."),
    },
    "Is it right?": {
        "validate": ("validate.command", "Attack the bounds of a kernel."),
        "validate attack": ("sweeps.attack_command", "Try to contradict the tool, for long."),
        "validate certificates": ("commands.certificates.command", "Confirm proofs of a report."),
        "validate tool": ("validate.selftest_command", "Check the installed tool."),
    },
    "The other published methods": {
        "hybrid": ("methods.hybrid.command", "Estimates from timed traces."),
        "instrument": ("methods.instrument.command", "PTX that writes its own trace."),
        "instrument record": ("methods.instrument.record", "Run it, and keep what it writes."),
        "instrument import": ("methods.instrument.import_dump", "A trace out of dumps."),
        "makespan": ("methods.makespan.command", "Exact worst-case makespan of identical warps."),
        "pwcet": ("methods.pwcet.command", "Probabilistic WCET from measured times."),
    },
    "Machines": {
        "machine": ("commands.machine.command", "List machine files, or show one."),
        "machine check": ("commands.machine.command", "Every problem of a machine file."),
        "machine measure": ("commands.machine.command", "Run the microbenchmarks on the GPU."),
        "machine microbenchmarks": ("commands.machine.command", "Microbenchmarks as PTX."),
        "machine new": ("commands.machine.command", "Begin a machine file for another GPU."),
    },
}


_MODULES = {words: row[0] for rows in HEADINGS.values() for words, row in rows.items()}


class CommandTree(click.Group):
    """A group of these commands: they are imported on use, since none pays for another."""

    def words(self) -> str:
        """Returns the text before its commands' names: empty, or the first word and a blank."""
        return ""

    def _rows(self, heading: str) -> Iterator[tuple[str, str]]:
        """Yields name and summary of each command under a heading."""
        for words, (_, summary) in HEADINGS[heading].items():
            name = words.removeprefix(self.words())
            if words.startswith(self.words()) and " " not in name:
                yield name, summary

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the commands."""
        return sorted(name for heading in HEADINGS for name, _ in self._rows(heading))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command of a name, loaded."""
        if cmd_name not in self.list_commands(ctx):
            return None
        words = self.words() + cmd_name
        module = importlib.import_module(f"ptxwcet.{_MODULES[words]}")
        command = getattr(module, words.replace(" ", "_").replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves the command of one word or of two; returns it and the remaining words."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, CommandTree) and rest:
            inner = command.get_command(ctx, rest[0])
            if inner is not None:
                return f"{name} {rest[0]}", inner, rest[1:]
            if not ctx.resilient_parsing:
                command.refuse_misspelt(ctx, rest[0])
        return name, command, rest

    def refuse_misspelt(self, ctx: click.Context, word: str, otherwise: str = "") -> None:
        """Raises click.UsageError for a word that resembles a command's name, and not a file's.

        Without such a name it raises only if there is a remedy ``otherwise``.
        """
        near = get_close_matches(word.lower(), self.list_commands(ctx), 1)
        hint = f"did you mean {self.words()}{near[0]}?" if near else otherwise
        is_word = word.replace("-", "").replace("_", "").isalpha()
        if hint and is_word and not os.path.exists(word):
            message = f"'{word}' is no command, and no file of that name is here: {hint}"
            raise click.UsageError(message)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns the commands, with PTX, CUDA source and folders; else the shell completes files.

        A shell that completes files offers no other words: so they are listed here.
        """
        if incomplete.startswith("-"):
            return super(click.Group, self).shell_complete(ctx, incomplete)
        words = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        if not words:
            return [CompletionItem(incomplete, type="file")]
        for path in sorted(glob.glob(glob.escape(incomplete) + "*")):
            if os.path.isdir(path) or path.endswith((".ptx", ".cu")):
                words.append(os.path.join(path, "") if os.path.isdir(path) else path)
        return [CompletionItem(name) for name in words]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands by heading; none of them is loaded for it."""
        for heading in HEADINGS:
            rows = list(self._rows(heading))
            if rows:
                with formatter.section("More commands" if self.words() else heading):
                    formatter.write_dl([(self.words() + name, summary) for name, summary in rows])
