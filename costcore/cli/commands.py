"""The commands of the command line: our own, each a file of this folder, and those of plug-ins."""

from __future__ import annotations

from os import scandir
from pathlib import Path

from costcore.command import Command

__all__ = ["Command", "commands", "description", "named", "own_commands"]

HERE = Path(__file__).parent

START = '"""``costcore '
"""How the first line of the file of a command begins: its name, its arguments and what it does follow."""


def own_commands() -> dict[str, Command]:
    """Return our own commands by name: each is a file of this folder, whose first line states it."""
    with scandir(HERE) as entries:
        files = sorted(entry.name for entry in entries)
    found = (_stated_by(name[:-3]) for name in files if name.endswith(".py"))
    return {command.name: command for command in found if command is not None}


def _stated_by(stem: str) -> Command | None:
    """Return the command that the first line of a file states, without importing the file; None if it states none."""
    try:
        with (HERE / f"{stem}.py").open(encoding="utf-8") as file:
            stated, _, summary = file.readline().partition("``: ")
    except OSError:  # another word of the command line, such as a model
        return None
    name, _, arguments = stated.removeprefix(START).partition(" ")
    if name != stem or not stated.startswith(START):
        return None
    return Command(name, arguments, summary.rstrip().removesuffix('."""'), f"costcore.cli.{name}:main")


def commands() -> dict[str, Command]:
    """Return all commands by name, those of plug-ins last. No plug-in replaces another command.

    Raises:
        CostError: if a plug-in fails; the message includes its name.
    """
    from costcore.analyses.registered import analyses  # the plug-in manager takes long to import
    from costcore.plugins import objects_from_plugins

    found = own_commands()
    of_analyses = [each.command for each in analyses().values() if each.command is not None]
    for some in (*objects_from_plugins("costcore_commands", Command), of_analyses):
        for command in some:
            found.setdefault(command.name, command)
    return found


def named(word: str) -> Command | None:
    """Return the command that the first word of a command line names; None for a model.

    Raises:
        CostError: as :func:`commands`.
    """
    return (_stated_by(word) or commands().get(word)) if word.isidentifier() else None


def description() -> str:
    """Return the help above the options: what the program does, and its commands."""
    rows = [("MODEL", "report the cost of a model (options below)")]
    rows += [(f"{each.name} {each.arguments}".rstrip(), each.summary) for each in commands().values()]
    lines = "\n".join(f"  costcore {usage:19} {summary}" for usage, summary in rows)
    return (
        "Report the computational cost of one pass of a neural network: FLOPs, MACs, "
        "bytes read and written, and parameters.\n\n"
        f"commands (costcore COMMAND --help lists their options):\n{lines}"
    )
