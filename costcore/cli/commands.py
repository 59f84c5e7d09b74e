"""The built-in commands by name, the commands of plug-ins and analyses, and their completion in shells."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from costcore.cli import COMPLETING

if TYPE_CHECKING:
    from costcore.plugins import Command

OWN: Mapping[str, tuple[str, str, str]] = {
    "calibrate": ("", "measure a device, to estimate times", "costcore.cli.training:run_calibrate"),
    "check": ("MODEL", "check a model against a budget", "costcore.cli.comparing:run_check"),
    "completion": ("SHELL", "print the completion code of a shell", "costcore.cli.running:run_completion"),
    "conformance": (
        "BUILDERS",
        "check a frontend against known costs",
        "costcore.cli.tables:run_conformance",
    ),
    "conventions": ("", "list the counting conventions of other tools", "costcore.cli.tables:run_conventions"),
    "devices": ("", "list the devices", "costcore.cli.tables:run_devices"),
    "diff": ("OLD NEW", "compare two models or saved reports", "costcore.cli.comparing:run_diff"),
    "explain": ("MODEL N", "find the rules behind a published number N", "costcore.cli.comparing:run_explain"),
    "fit": ("MODEL TARGET", "check whether a model fits, and what would help", "costcore.cli.resources:run_fit"),
    "memory": ("MODEL", "find the largest batch that fits in memory", "costcore.cli.resources:run_memory"),
    "plan": ("MODEL", "list distributed training setups that fit", "costcore.cli.resources:run_plan"),
    "plot": ("MODEL", "plot operators, modules, memory or a roofline", "costcore.cli.tables:run_plot"),
    "profile": ("TRACE", "show where a profiled run spends its time", "costcore.cli.training:run_profile"),
    "quantities": ("", "list the columns that --columns takes", "costcore.cli.tables:run_quantities"),
    "reconcile": ("MODEL A B", "show why two counting conventions differ", "costcore.cli.comparing:run_reconcile"),
    "serve": ("MODEL", "cost of prefill and decode of a language model", "costcore.cli.training:run_serve"),
    "table": ("MODEL ...", "compare several models, one row per model", "costcore.cli.tables:run_table"),
    "time": ("MODEL", "lower bound of the run time on a device", "costcore.cli.resources:run_time"),
    "train": ("MODEL", "FLOPs of a training run, and its MFU", "costcore.cli.training:run_train"),
}
"""Arguments, summary and import path of our own commands, by name."""


EXAMPLES = (
    "  costcore model.onnx                      count a file",
    "  costcore torchvision:resnet50 --tree     count a library's model, per module",
    "  costcore net.py:make --input 8x3x32x32   count the model that a function makes",
    "",
)

TASKS: Mapping[str, tuple[str, ...]] = {
    "does it fit": ("fit", "memory", "plan"),
    "how long does it take": ("time", "profile", "calibrate", "devices"),
    "train and serve": ("train", "serve"),
    "compare": ("diff", "check", "table", "plot"),
    "numbers of other tools": ("explain", "reconcile", "conventions"),
    "for tool builders": ("quantities", "conformance", "completion"),
}
"""Our own commands by task."""

COMMON_OPTIONS: Mapping[str, str] = {
    "--input SHAPE": "shape of an input, 1x3x224x224 or 1x128:int64",
    "--dim NAME=N": "value of a symbolic dimension",
    "--backward": "count the backward pass too",
    "--tree, --by KEYS": "per module; per operator, module or phase",
    "--columns NAMES": "the columns, such as name,macs,n_params",
    "--unit, --digits": "prefix of numbers (K, M, G, none), digits after the point",
    "--memory, --arena": "peak memory of a run; static memory plan of an inference",
    "--convention NAME": "count as another tool does",
    "--format NAME": "table, md, csv, json and others",
    "--output FILE": ".html, .json, .csv or .md",
}
"""The most common options of ``costcore MODEL``."""


def commands() -> dict[str, Command]:
    """Return all commands by name, plug-ins last. A plug-in cannot replace another command.

    Raises:
        CostError: if a plug-in fails; the message includes its name.
    """
    from costcore.analyses.analysis import analyses  # the plug-in manager takes long to import
    from costcore.plugins import Command, objects_from_plugins

    found = {name: Command(name, *stated) for name, stated in OWN.items()}
    of_analyses = [each.command for each in analyses().values() if each.command is not None]
    for some in (*objects_from_plugins("costcore_commands", Command), of_analyses):
        for command in some:
            found.setdefault(command.name, command)
    return found


def path_of(word: str) -> str | None:
    """Return the import path of the command named by the first word of a command line; None for a model.

    Raises:
        CostError: as :func:`commands`.
    """
    if word in OWN:  # without importing plug-ins
        return OWN[word][2]
    command = commands().get(word) if word.isidentifier() else None
    return None if command is None else command.path


def short_help() -> str:
    """Return the help of one screen: the commands by task, and the most common options of ``costcore MODEL``."""
    known = commands()
    tasks = {**TASKS, "of plug-ins": tuple(name for name in known if name not in OWN)}
    lines = ["usage: costcore MODEL [options]", "       costcore COMMAND [options]", "", *EXAMPLES]
    for task, names in tasks.items():
        lines += [f"{task}:"] * bool(names)
        for name in names:
            usage = f"{name} {known[name].arguments}".rstrip()
            lines.append(f"  costcore {usage:21} {known[name].summary}")
    lines += [
        "",
        "options of costcore MODEL (all: costcore --help-all; costcore COMMAND --help):",
    ]
    lines += [f"  {option:18} {meaning}" for option, meaning in COMMON_OPTIONS.items()]
    return "\n".join(lines)


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


# Completion in shells.


def words_to_complete() -> list[str]:
    """Return the command of the line that a shell completes, if it has one; its parser then completes the rest."""
    line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = line.split()[1:] if line.endswith(" ") else line.split()[1:-1]
    if words and path_of(words[0]) is not None:
        os.environ[COMPLETING] = "2"  # the command is the program of its own parser
        return words[:1]
    return []
