"""Options shared by commands: of models, conventions, numbers and files; parsers, and renamed options."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from costcore.api.hook import INPUT_FORMS
from costcore.errors import CostError, did_you_mean, short_repr
from costcore.plugins import with_plugin_hint
from costcore.registry import specs
from costcore.tables.renderers import renderers
from costcore.text.amounts import UNITS, parse_count
from costcore.trace.run import LEVELS

FLAGS_WITH_VALUES = {
    "dims": "--dim",
    "shapes": "--shape",
    "max_nodes": "--max-nodes",
    "et": "--et",
    "profiler_step": "--profiler-step",
    "graphs": "--graphs",
}
"""The flags of frontend options that take a value; all other frontend options are switches."""

PRECISIONS = ("bfloat16", "pure_bfloat16", "autocast")
"""The values of ``--precision``."""

MOST_OF_USAGE = 73
"""The maximum characters of a usage line after ``usage:``."""

PICTURES = (".svg", ".png", ".pdf")
"""Suffixes of pictures."""

SAVED = (".xlsx", *PICTURES)
"""Suffixes of binary files and pictures."""

RESULT_FILES = (".csv", ".md", ".tex", ".json", ".html", *SAVED)
"""Suffixes of the file of ``--output`` that every result writes."""

MODES: Mapping[str, str] = {".tex": "latex"}
"""The formats whose name is not their suffix."""

AT_SPACES: Mapping[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
"""Wrap lines between words only."""


def model_forms() -> str:
    """Return the forms of a model on the command line, with the suffixes that installed frontends read."""
    *suffixes, last = [suffix for spec in specs().values() for suffix in spec.suffixes]
    return (
        f"a file ending in {', '.join(suffixes)} or {last}, a folder of .safetensors files with its config.json, "
        "a trace of torch.profiler, package.module:factory, file.py:factory, 'file.py:factory(width=2)', timm:NAME, "
        "torchvision:NAME, hf:TYPE or hf:config.json, or a report saved as .json"
    )


class WrappedLines(argparse.RawDescriptionHelpFormatter):
    """A formatter that wraps paragraphs, and lines of examples only if they exceed the terminal.

    An example (a line that begins with two spaces and ``costcore``) is wrapped with a backslash, so that it can be
    copied. A line of two columns is wrapped in its second column.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = re.sub(r"^(\S.*[^:\n])\n(?=\S)", r"\1 ", text, flags=re.MULTILINE)
        return "\n".join(part for line in paragraphs.splitlines() for part in self._wrapped(line, width) or [""])

    def _wrapped(self, line: str, width: int) -> list[str]:
        if len(line) <= width:
            return [line]
        columns = re.match(r" +\S.*?\S {2,}(?=\S)", line)
        if line.startswith("  costcore ") and columns is None:
            joined = re.sub(r"(?<= )(--[\w-]+) (?=[^-\s])", "\\1\0", line)  # an option and its value
            *parts, last = textwrap.wrap(joined, width - 2, subsequent_indent=" " * 6, **AT_SPACES)
            return [part.replace("\0", " ") for part in (*(f"{part} \\" for part in parts), last)]
        at = len(columns[0]) if columns else len(line) - len(line.lstrip())
        return textwrap.wrap(line, width, subsequent_indent=" " * at, drop_whitespace=True, **AT_SPACES)


class Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest choices of an option.

    Attributes:
        words: the completions of the first argument, besides models.
        given: the arguments of the command line.
        arguments: the arguments outside of groups.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self.words: Sequence[str] = ()
        self.given: Sequence[str] = ()
        self.arguments: list[argparse.Action] = []
        super().__init__(*args, **options)

    def add_argument(self, *args: Any, **options: Any) -> argparse.Action:
        """Add an argument, as argparse does."""
        action = super().add_argument(*args, **options)
        self.arguments.append(action)
        return action

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit with 2. Options that do not exist come first."""
        words = self.given[: self.given.index("--") if "--" in self.given else None]
        options = [word for word in words if word.startswith("--")]
        flags = _flags(self) if options else []
        others = [word for word in options if not any(flag.startswith(word.partition("=")[0]) for flag in flags)]
        found = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message)
        near = did_you_mean([found[1]], re.findall(r"[^\s,']+", found[2])) if found else ""
        if others:
            message, near = _unrecognized(others, flags), ""
        elif re.search(r"are required: .*--device\b", message):
            from costcore.analyses.devices.device import device_names

            named = [word for word in self.given if word in device_names()]
            near = f". Did you mean '--device {named[0]}'?" if named else ", such as --device h100"
        if message.endswith("are required: --budget"):
            near = '. Write limits to a file, [total] and below it macs = "4G", and add --budget budget.toml'
        super().error(message + near)


def command_parser(command: str, arguments: str, description: str, epilog: str) -> Parser:
    """Return a parser without arguments.

    Args:
        command: the words that call the command.
        arguments: the arguments it needs, for its usage line.
        description: what it does.
        epilog: examples and exit codes.
    """
    usage, hint = f"{command} {arguments} [options]", "  (see --help)"
    has_examples = epilog.startswith("example")
    examples, _, more = epilog.partition("\n\n") if has_examples else ("", "", epilog)
    return Parser(
        prog=command,
        usage=usage + hint * (len(usage + hint) < MOST_OF_USAGE),
        description=f"{examples}\n\n{description}".lstrip(),
        epilog=more,
        formatter_class=WrappedLines,
    )


def parse_arguments(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments of a command; unknown ones are an error that suggests near matches."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if isinstance(parser, Parser):
        parser.given = argv
    args, others = parser.parse_known_args(argv)
    if others:
        parser.error(_unrecognized(others, _flags(parser)))
    return args


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return re.findall(r"--[a-z0-9-]+", parser.format_help())


def _unrecognized(unknown: Sequence[str], flags: Sequence[str]) -> str:
    shapes = [
        f"--input {text}"
        for text in unknown
        if "--input" in flags and re.fullmatch(r"(\w+=)?\d+([x,]\d+)+(:\w+)?", text)
    ]
    words = [_advised(text.partition("=")[0].lstrip("-").replace("-", "_").lower()) for text in unknown]
    advice = [_ADVICE[word] for word in words if word and (f"--{word}" in flags) == (word in _PARTS)]
    if shapes:
        hint = f". Did you mean {' '.join(shapes)!r}?"
    else:
        hint = f". {advice[0]}" if advice and "--input" in flags else did_you_mean(unknown, flags)
    return with_plugin_hint(f"unrecognized arguments: {' '.join(unknown)}{hint}")


def _advised(name: str) -> str:
    return _ADVICE_OF.get(name, "limit" if name.startswith(("max_", "min_")) else "")


# Advice on options that users expect from other tools: here they are part of another option or command.
_ADVICE = {
    "batch": "The batch is the first size of --input: --input 8x3x224x224. "
    "The largest that fits: costcore fit MODEL TARGET --input batch,3,224,224",
    "device": "The time on a device: costcore time MODEL --device NAME; whether it fits: costcore fit MODEL NAME; "
    "a model whose code asks for a GPU: --cuda",
    "columns": "Quantities are columns: --columns flops,macs,n_params",
    "format": "Formats: --format csv, --format json, --output page.html",
    "seq": "The length of a sequence: --seq 4096",
    "limit": "Limits are a budget of one model: costcore check MODEL --budget budget.toml; the best of several models: "
    "costcore table MODEL MODEL --sort macs, --pareto macs,n_params",
}
_PARTS = ("columns", "format", "seq")  # advice for commands with this option; all other advice is for those without
_ADVICE_OF = {
    **dict.fromkeys(("batch", "batch_size", "batchsize", "bs", "n_batch", "max_batch"), "batch"),
    **dict.fromkeys(("device", "gpu", "hardware", "accelerator", "dev"), "device"),
    **dict.fromkeys(("flops", "macs", "params", "n_params", "no_params", "gflops", "metric", "metrics"), "columns"),
    **dict.fromkeys(("csv", "json", "html", "md", "markdown", "latex"), "format"),
    **dict.fromkeys(("context", "ctx", "n_ctx", "max_length", "seq_len", "seq_length", "sequence_length"), "seq"),
}


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the inputs of a model and for how it is counted."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SHAPE",
        help=f"shape or value of an input: {INPUT_FORMS}; 1k is 1,024; may be repeated",
    )
    add_sequence(parser, "1")
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help=f"value of a symbolic dimension ({files_with('dims')}, saved reports); may be repeated",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SHAPE",
        help=f"shape of a value if it cannot be inferred, batch,8 or 1x8 ({files_with('shapes')}); may be repeated",
    )
    parser.add_argument(
        "--max-nodes",
        type=count,
        metavar="N",
        help=f"maximum number of nodes after expanding functions, loops and branches ({files_with('max_nodes')}); "
        "default: 100000",
    )
    parser.add_argument("--et", metavar="FILE", help="execution trace recorded together with the torch.profiler trace")
    parser.add_argument(
        "--graphs",
        metavar="FILE",
        help="trace of the capture of the CUDA or HIP graphs that the torch.profiler trace replays",
    )
    parser.add_argument(
        "--profiler-step", type=int, metavar="N", help="traces: count ProfilerStep#N; default: the step of median time"
    )
    parser.add_argument("--backward", action="store_true", help="count the backward pass too (PyTorch, Chainer)")
    parser.add_argument(
        "--optimizer",
        metavar="NAME",
        help="count a training step with this optimizer: sgd, sgd_momentum, adam, adamw, adam_8bit, adamw_8bit, "
        "adafactor, lion, muon (PyTorch); implies --backward",
    )
    parser.add_argument("--train", action="store_true", help="count a training step, in train mode; implies --backward")
    parser.add_argument(
        "--eval",
        action="store_true",
        help="put the model into evaluation mode; default: its current mode (PyTorch)",
    )
    parser.add_argument("--lora", type=int, metavar="RANK", help="train adapters of this rank alone (PyTorch)")
    parser.add_argument("--dora", type=int, metavar="RANK", help="as --lora, with learned norms of weight rows (DoRA)")
    parser.add_argument(
        "--lora-targets", metavar="NAMES", help="linear layers with adapters, q_proj,v_proj; default: all but the last"
    )
    parser.add_argument(
        "--quantize", choices=("nf4",), help="store the weights of layers with adapters in 4 bits (QLoRA)"
    )
    add_parallel_options(parser)
    parser.add_argument(
        "--calculator",
        action="append",
        default=[],
        metavar="FILE.py:NAME",
        help="cost of a module, function or operator: a function that @costcore.costs decorates; may be repeated",
    )
    parser.add_argument("--cuda", action="store_true", help="tell code that asks for a GPU that there is one (PyTorch)")
    add_attention(parser)
    parser.add_argument(
        "--no-fma-1flop", dest="fma_1flop", action="store_false", help="count a fused multiply-add as two FLOPs"
    )
    parser.add_argument(
        "--layout",
        default="framework",
        choices=["framework", "free"],
        help="free: ignore data movement (transposition, slicing, copies); default: framework",
    )
    add_python_path(parser, ", in addition to the current one; may be repeated")


def add_sequence(parser: argparse.ArgumentParser, batch: str) -> None:
    """Add ``--seq``, the input of a language model with a batch, a number or a name."""

    class AddInput(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
            try:
                tokens = length(str(values))
            except argparse.ArgumentTypeError:
                tokens = 0
            if tokens < 1:
                raise argparse.ArgumentError(self, f"expected a number of tokens, 4096 or 4k (got {values!r})")
            namespace.input = [*namespace.input, f"input_ids={batch},{tokens}:int64"]
            namespace.seq = values

    parser.add_argument(
        "--seq",
        action=AddInput,
        metavar="N",
        help=f"sequence length of a language model, 4096 or 4k: --input input_ids={batch},N:int64",
    )


def add_attention(parser: argparse.ArgumentParser) -> None:
    """Add the option for the pairs of queries and keys that count."""
    parser.add_argument(
        "--attention",
        choices=("all", "computed"),
        default="all",
        help="count all pairs of queries and keys, or those that masks allow (PyTorch); default: all",
    )


def add_parallel_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that change how a step runs: checkpointing, precision, and the mesh of a rank."""
    parser.add_argument(
        "--checkpoint",
        metavar="CLASS",
        help="apply activation checkpointing to the modules of this class or path (layers.*.mlp); "
        "'Block(save=mm,attention)' saves the results of these operators (PyTorch)",
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="count in bfloat16 with float32 master weights, without them (pure_bfloat16), or under autocast; default: "
        "the dtypes of MODEL (PyTorch)",
    )
    parser.add_argument(
        "--mesh", metavar="NAME=N,...", help="count one rank of a device mesh, dp=8,tp=4; needs --plan (PyTorch)"
    )
    parser.add_argument(
        "--plan", metavar="PLAN", help="how the model is distributed: fully_sharded, or file.py:function(model, mesh)"
    )


def mesh_of(text: str) -> dict[str, int]:
    """Return the sizes by dimension in ``dp=8,tp=4``.

    Raises:
        ValueError: if the text has another form.
    """
    found = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if not name.strip() or not size.strip().isdecimal():
            raise ValueError(f"--mesh {text!r} is invalid (expected sizes by dimension, dp=8,tp=8)")
        found[name.strip()] = int(size)
    return found


def _context_size(text: str) -> str:
    if re.fullmatch(r"[1-9]\d{0,5}k?", text):  # tokens of a language model
        raise argparse.ArgumentTypeError(f"the memory of a CUDA context is a size, 500MiB; a length is --seq {text}")
    return text


def add_memory_terms(parser: argparse.ArgumentParser, context: str | None, default: str) -> None:
    """Add the memory terms besides tensors; ``context`` is the default value, ``default`` its description."""
    said = f"memory used before the first tensor is allocated; default: {default}"
    parser.add_argument("--context", type=_context_size, default=context, metavar="SIZE", help=said)
    parser.add_argument(
        "--workspace", default="0 B", metavar="SIZE", help="memory that kernels use as workspace; default: 0"
    )
    parser.add_argument(
        "--fragmentation",
        type=float,
        default=0.0,
        metavar="X",
        help="fraction of the peak lost to fragmentation; default: 0",
    )


def add_frontend_switches(parser: argparse.ArgumentParser) -> None:
    """Add the switches of frontends, and their options with a value, after all other options of the command.

    The result is ``frontend_options``, pairs of a name and a value, which is True for a switch.

    Raises:
        CostError: if the command already has an option of that name.
    """
    parser.set_defaults(frontend_options=[])
    added: set[str] = set()
    for spec in specs().values():
        names = [name for name in spec.options if name not in FLAGS_WITH_VALUES and name not in added]
        if not names:
            continue
        added.update(names)
        group = parser.add_argument_group(f"options for {' and '.join(spec.suffixes)} files")
        for name in names:
            try:
                group.add_argument(
                    flag_of(name),
                    dest="frontend_options",
                    help=spec.options[name],
                    **_argument(name, spec.values.get(name)),
                )
            except argparse.ArgumentError as error:
                raise CostError(f"the {spec.name} frontend cannot have an option {name!r}: {error}") from error


def _argument(name: str, read: Callable[[str], Any] | None) -> dict[str, Any]:
    if read is None:
        return {"action": "append_const", "const": (name, True)}

    def pair(text: str) -> tuple[str, Any]:
        try:
            return name, read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{short_repr(text)} is invalid: {error}") from error

    return {"action": "append", "type": pair, "metavar": "N" if read is int else "VALUE"}


def add_python_path(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add ``--python-path``; ``more`` ends its help."""
    parser.add_argument(
        "--python-path", action="append", default=[], metavar="DIR", help=f"folder to search for modules{more}"
    )


def names_in(texts: Sequence[str] | None) -> list[str]:
    """Return the names in the comma-separated values of an option."""
    return [name.strip() for text in texts or () for name in text.split(",")]


TOKENS = 1024
"""The tokens in ``1k``: a context of 8k has 8,192."""


def counts_in(text: str, flag: str, base: int = 1000) -> list[int]:
    """Return the numbers in ``1,8,64`` or ``2k,8k``, the value of a flag; ``base`` as for :func:`parse_count`.

    Raises:
        ValueError: if one is not a positive integer.
    """
    try:
        found = [parse_count(part, flag, base) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(found):
        raise ValueError(f"{flag} must be positive integers separated by commas (got {text!r})")
    return found


def count(text: str) -> int:
    """Return a number of an option, ``64``, ``64k`` or ``1M``; a type of argparse."""
    return _counted(text, 1000)


def length(text: str) -> int:
    """Return a number of tokens of a sequence, ``4096`` or ``8k``, which is 8,192; a type of argparse."""
    return _counted(text, TOKENS)


def _counted(text: str, base: int) -> int:
    sign = -1 if text.startswith("-") else 1  # the command rejects it, with a reason
    try:
        return sign * parse_count(text.removeprefix("-"), "the value", base)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_convention(parser: argparse.ArgumentParser) -> None:
    """Add ``--convention``."""
    parser.add_argument(
        "--convention",
        metavar="NAME",
        help="count FLOPs as another tool does: a name that `costcore conventions` lists, or a .toml file with rules",
    )


def add_fusion(parser: argparse.ArgumentParser) -> None:
    """Add ``--fusion``."""
    parser.add_argument(
        "--fusion",
        choices=LEVELS,
        help="count bytes after kernel fusion. pointwise: fuse element-wise operators, reductions and copies; "
        "compiler: fuse them into the preceding matrix product too; default: no fusion",
    )


def add_unit(parser: argparse.ArgumentParser) -> None:
    """Add ``--unit``; ``none`` means exact numbers."""
    parser.add_argument(
        "--unit",
        default="autoaligned",
        choices=["none", *filter(None, UNITS)],
        help="prefix of the numbers; default: autoaligned, one prefix per column",
    )


def add_digits(parser: argparse.ArgumentParser, default: int) -> None:
    """Add ``--digits``."""
    parser.add_argument(
        "--digits",
        type=int,
        default=default,
        metavar="N",
        help=f"digits after the decimal point, 0 to 10; default: {default}",
    )


def unit_of(args: argparse.Namespace) -> str | None:
    """Return the unit of numbers as :meth:`Report.show_report` takes it."""
    return None if args.unit == "none" else str(args.unit)


def files_with(option: str) -> str:
    """Return the suffixes of the files that an option applies to."""
    return ", ".join(suffix for spec in specs().values() if option in spec.options for suffix in spec.suffixes)


def flag_of(option: str) -> str:
    """Return the flag of an option of a frontend, such as ``--check-shapes``."""
    return FLAGS_WITH_VALUES.get(option, f"--{option.replace('_', '-')}")


def add_output(
    parser: argparse.ArgumentParser,
    suffixes: Sequence[str] = RESULT_FILES,
    formats: Sequence[str] = (),
    action: type[argparse.Action] | None = None,
) -> None:
    """Add ``--format`` and ``--output``; each of ``suffixes`` selects the format of that name."""
    parser.add_argument(
        "--format",
        choices=sorted(formats or [*renderers(), "json"]),
        help="output format, with all rows; default: table, at most 40 lines",
    )
    parser.add_argument(
        "--output",
        action=action or "store",
        metavar="FILE",
        help=f"write to FILE, in the format of its suffix: {', '.join(suffixes)}",
    )


def format_of(args: argparse.Namespace, default: str, suffixes: Sequence[str]) -> str:
    """Return the output format.

    Raises:
        ValueError: if the output file has another suffix, or ``--format`` is given for a file.
    """
    if args.output is None:
        return str(args.format or default)
    if args.format is not None:
        raise ValueError("--format cannot be combined with --output; the file suffix selects the format")
    suffix = Path(args.output).suffix
    if suffix not in suffixes:
        near = did_you_mean([suffix], suffixes)
        raise ValueError(
            f"--output {args.output!r} has an unknown suffix (expected one of {', '.join(suffixes)}){near}"
        )
    return MODES.get(suffix, suffix[1:])
