"""The commands of the command line: our own, each a file of this folder, and those of plug-ins."""

from __future__ import annotations

from costcore.command import Command

__all__ = ["COMMANDS", "Command", "commands", "description", "named"]

COMMANDS = {
    name: Command(name, arguments, summary, f"costcore.cli.{name}:main")
    for name, arguments, summary in (
        ("diff", "OLD NEW", "compare two models or saved reports"),
        ("check", "MODEL", "check a model against a budget"),
        ("table", "MODEL ...", "list several models, one row per model"),
        ("plot", "MODEL", "draw operators, modules, memory, a roofline or sizes"),
        ("fit", "MODEL TARGET", "say whether a model fits a device, and what would help"),
        ("memory", "MODEL", "find the largest batch that fits into a memory"),
        ("explain", "MODEL N", "say by which rules somebody got the number N"),
        ("reconcile", "MODEL A B", "list why the conventions A and B differ"),
        ("conventions", "", "list the conventions"),
        ("quantities", "", "list the quantities that --columns takes"),
        ("time", "MODEL", "state how long a run takes at least on a device"),
        ("profile", "TRACE", "state where the time of a recorded run goes"),
        ("train", "MODEL", "state the FLOPs of a training run, and its MFU"),
        ("plan", "MODEL", "list the ways to train on many devices that fit"),
        ("serve", "MODEL", "state what prefill and decode of a language model cost"),
        ("devices", "", "list the devices"),
        ("calibrate", "", "measure a device, so that times can be estimated"),
    )
}
"""Our own commands by name, in the order of the help."""


def commands() -> dict[str, Command]:
    """Return all commands by name, those of plug-ins last. No plug-in replaces another command.

    Raises:
        CostError: if a plug-in fails; the message includes its name.
    """
    from costcore.analyses.registered import analyses  # the plug-in manager takes long to import
    from costcore.plugins import objects_from_plugins

    found = dict(COMMANDS)
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
    return COMMANDS.get(word) or (commands().get(word) if word.isidentifier() else None)


def description() -> str:
    """Return the help above the options: what the program does, and its commands."""
    rows = [("MODEL", "report the cost of a model (options below)")]
    rows += [(f"{each.name} {each.arguments}".rstrip(), each.summary) for each in commands().values()]
    lines = "\n".join(f"  costcore {usage:19} {summary}" for usage, summary in rows)
    return (
        "Report the computational cost of one pass of a neural network: FLOPs, MACs, bytes read and\n"
        "written, and parameters.\n\n"
        f"commands (costcore COMMAND --help lists their options):\n{lines}"
    )
