"""The exceptions and the warning category of costcore, and fragments of error messages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CHECKPOINT_SUFFIXES = (".bin", ".ckpt", ".safetensors")
"""Suffixes of files with weights and without a model."""

READERS_TO_INSTALL = {
    **dict.fromkeys((".mlir", ".mlirbc", ".stablehlo"), "costcore-stablehlo"),
    **dict.fromkeys((".mlmodel", ".mlpackage"), "costcore-coreml"),
    ".tflite": "costcore-tflite",
    ".xml": "costcore-openvino",
}
"""Packages with further frontends, by suffix of their files."""


_HDF5 = (
    "an HDF5 file, which costcore does not read. If it is a Keras model that you trust, convert it in Python: "
    "keras.saving.load_model('net.h5').save('net.keras')"
)
_TENSORFLOW = "a graph of TensorFlow. Convert it with tf2onnx, or to .tflite (package costcore-tflite)."
_COMPILED = "compiled for one kind of device. Pass the model from which it was compiled, such as its .onnx file."
_PICKLE = "a pickle, which would run code when it is read. Pass the code that builds the model, as file.py:factory."
_ARCHIVE = "an archive. Unpack it, and pass the model inside."
_PADDLE = "a model of PaddlePaddle. Convert it with paddle2onnx."
_ARRAYS = "a file of arrays, not a model. Pass the code that builds the model, as file.py:factory."
_NSIGHT = "a report of Nsight Systems. Pass the file that this writes: nsys export --type sqlite REPORT"
_COMPUTE = (
    "a report of Nsight Compute, which replays single kernels. Record the run: nsys profile --output=report python "
    "train.py, then nsys export --type sqlite report.nsys-rep"
)
_ROCPROF = "a trace of rocprofv3. Pass the file that this writes: rocprofv3 --kernel-trace --output-format pftrace"
_ROCPD = "a database of rocprofv3. Pass the file that this writes: rocpd convert --output-format pftrace -i FILE"
_CAFFE = "a model of Caffe. Convert it to ONNX."

OTHER_FILES = {
    ".ipynb": "a notebook. Move the function that builds the model to a .py file and pass file.py:function, or call "
    "estimate in the notebook.",
    **dict.fromkeys((".h5", ".hdf5"), _HDF5),
    **dict.fromkeys((".pb", ".pbtxt", ".meta"), _TENSORFLOW),
    **dict.fromkeys((".engine", ".plan", ".trt", ".rknn", ".hef", ".blob", ".bmodel", ".om", ".mnn"), _COMPILED),
    **dict.fromkeys((".pkl", ".pickle", ".joblib", ".dill"), _PICKLE),
    **dict.fromkeys((".nsys-rep", ".qdrep"), _NSIGHT),
    **dict.fromkeys((".ncu-rep", ".ncu-repz"), _COMPUTE),
    **dict.fromkeys((".otf2", ".ctf"), _ROCPROF),
    ".rocpd": _ROCPD,
    **dict.fromkeys((".zip", ".tar", ".tgz", ".gz", ".mar", ".nemo"), _ARCHIVE),
    **dict.fromkeys((".pdmodel", ".pdiparams"), _PADDLE),
    **dict.fromkeys((".npz", ".npy", ".msgpack"), _ARRAYS),
    **dict.fromkeys((".caffemodel", ".prototxt"), _CAFFE),
    **dict.fromkeys(
        (".yaml", ".yml", ".toml"), "a configuration. Pass the code that builds the model from it, as file.py:factory."
    ),
    **dict.fromkeys((".csv", ".md", ".html", ".xlsx"), "a table or page. Pass the model, or a report saved as .json."),
}
"""Files that costcore does not read as models, by suffix: their kind, and the fix."""


class CostError(ValueError):
    """A cost that cannot be computed.

    The message includes the file or model, the node or module, and the reason.
    """


class FileError(CostError, OSError):
    """A file that a user named and that cannot be read; the message includes its path and the reason."""


class MissingOperandError(CostError, KeyError, IndexError):
    """A missing operand of a layer, for example of an edited saved report.

    Args:
        op: the operator of the layer.
        operand: the name of the operand.
        has: the names of the existing operands.
    """

    def __init__(self, op: str, operand: str, has: Iterable[str]) -> None:
        super().__init__(f"operator {op!r} has no {operand!r} (it has {', '.join(has) or 'none'})")

    def __str__(self) -> str:  # KeyError returns a repr
        return str(self.args[0])


class IncompleteReportError(CostError):
    """Raised with ``strict=True`` if the status of the report is not ``complete``.

    Attributes:
        report: the report.
    """

    report: Any = None  # a costcore.Report, whose modules import this one


class PartialReportError(IncompleteReportError):
    """Raised with ``strict=True`` if some operators could not be counted; ``report`` has all others."""


class AssumedReportError(IncompleteReportError):
    """Raised with ``strict=True`` if the report depends on assumptions about data."""


class MissingInputsError(CostError):
    """A model that is run needs inputs, and none were passed.

    Attributes:
        takes: the inputs of the model, as a sentence.
        example: inputs that work; None if none were found.
        names: the names of the required inputs, if they are known.
    """

    def __init__(self, takes: str, example: Any = None, names: Sequence[str] = ()) -> None:
        self.takes = takes
        self.example = example
        self.names = tuple(names)
        hint = ""
        if example is not None:
            hint = f" For example estimate(model, {example!r}).".replace("Tensor(", "costcore.Tensor(")
        elif len(self.names) > 1:
            hint = f" Pass them by name, estimate(model, {{{', '.join(f'{name!r}: …' for name in self.names)}}})."
        super().__init__(f"the model needs inputs. {takes}{hint}")


class UnknownOptionError(TypeError):
    """An option of :func:`costcore.estimate` that the frontend does not accept.

    Attributes:
        frontend: the name of the frontend.
        options: the names of the refused options.
    """

    frontend: str = ""
    options: tuple[str, ...] = ()


class CostWarning(UserWarning):
    """A warning about the numbers: uncounted calls, an unused or a replaced calculator."""


class ArenaError(CostError):
    """A run that has no memory plan; the message says what is missing and how to pass it."""


class MissingPartError(CostError, ModuleNotFoundError):
    """A requested package of analyses or studies that this installation does not have.

    Args:
        part: the name of its module.
    """

    def __init__(self, part: str) -> None:
        super().__init__(f"this needs {part}, which this installation of costcore does not have")
        self.name: str = part


# Fragments of messages: shortened values, reasons, names of functions, near matches.


def qualified_name(function: Any) -> str:
    """Return the module and qualified name of a function or callable object."""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def error_text(error: Exception) -> str:
    """Return the message of an error; for an ``OSError``, without its number and path."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def line_of(error: BaseException) -> str:
    """Return where an error was raised, ``(net.py, line 3)`` after a space: the last line outside costcore, if any."""
    lines, at = [], error.__traceback__
    while at is not None:
        lines.append((at.tb_frame.f_code.co_filename, at.tb_lineno))
        at = at.tb_next
    outside = [line for line in lines if Path(__file__).parent not in Path(line[0]).parents]
    return "".join(f" ({Path(file).name}, line {number})" for file, number in (outside or lines)[-1:])


def import_problem(what: str, package: str, error: BaseException, title: str = "") -> str:
    """Return why a package cannot be imported: it is not installed, or a package that it imports fails.

    Libraries replace the error of a broken dependency by their own, so the message has the first cause, with the
    package that raised it.

    Args:
        what: the feature that needs the package.
        package: its name for ``import`` and ``pip install``.
        error: the exception of its import.
        title: the name of the library, if it differs from ``package``.
    """
    cause = first_cause(error)
    is_there = sys.modules.get(package) is not None or find_spec(package) is not None
    other = re.search(r"requires the ([\w.-]+) library|pip install ([\w.-]+)", str(error))
    name = package if other is None else other[1] or other[2]
    if is_there and name != package:  # libraries ask for what one of their models needs
        return f"{what} needs {name}, which is not installed. Run pip install {name}."
    broken = _raised_in(cause, package) if is_there else package
    if broken == package and (not is_there or isinstance(cause, ImportError)):
        return f"{what} needs {title or package}, which cannot be imported ({error}). Run pip install {package}."
    text = str(cause).strip().partition("\n")[0]
    failure = f"{type(cause).__name__}: {text:.300}"
    if broken == package:
        return (
            f"{what} needs {title or package}, which is installed and cannot be imported ({failure}). Run pip install "
            f"--force-reinstall {package}."
        )
    return (
        f"{what} needs {title or package}, which is installed and cannot be imported because {broken} fails "
        f"({failure}). Repair {broken}, or uninstall it if nothing needs it."
    )


def first_cause(error: BaseException) -> BaseException:
    """Return the exception at the beginning of a chain."""
    seen = [error]
    while (before := error.__cause__ or (None if error.__suppress_context__ else error.__context__)) is not None:
        if before in seen:
            break
        error = before
        seen.append(error)
    return error


def _raised_in(error: BaseException, package: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != package:
        return error.name.partition(".")[0]
    at, is_inside = error.__traceback__, False
    while at is not None:
        root = str(at.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        # The first package after the one that was imported, on the way to the error.
        is_inside |= root == package
        # PyTorch itself works, as it runs the model: a library made for another release fails inside it.
        if is_inside and root not in (package, "", "torch") and root not in sys.stdlib_module_names:
            return root
        at = at.tb_next
    return package


def short_repr(value: object) -> str:
    """Return the ``repr`` of a value on one line, shortened to 80 characters.

    >>> short_repr([10**6000])
    'a list that is too large to print'
    """
    try:
        text = re.sub(r"\s*\n\s*", " ", repr(value))
    except ValueError:  # Python prints integers of up to 4,300 digits
        return f"a {type(value).__name__} that is too large to print"
    return text if len(text) <= 80 else text[:79] + "…"


def did_you_mean(names: Iterable[object], expected: Iterable[object]) -> str:
    """Return a suggestion of near matches, to be appended to a message; empty if there is no near match.

    >>> did_you_mean(["flop"], ["flops", "macs"])
    ". Did you mean 'flops'?"
    >>> did_you_mean(["a100"], ["a100-sxm4-80gb", "l4"])
    ". Did you mean 'a100-sxm4-80gb'?"
    >>> did_you_mean(["--batch-size"], ["--base", "--batch"])
    ". Did you mean '--batch'?"
    >>> did_you_mean(["latency@l4"], ["bound_seconds@DEVICE", "macs"])
    ". Did you mean 'bound_seconds@l4'?"
    """
    choices = [str(choice) for choice in expected]
    words = [name.partition("=")[0] if name.startswith("--") else name for name in names if isinstance(name, str)]
    near = [match for word in words for match in _near(word, choices)]
    return f". Did you mean {' and '.join(map(repr, dict.fromkeys(near)))}?" if near else ""


_OUR_WORDS = {
    "accelerator": "device",
    "amp": "precision",
    "batch_size": "batch micro_batch input",
    "batchsize": "batch micro_batch input",
    "bf16": "precision dtype",
    "bs": "batch micro_batch input",
    "bytes": "mrw",
    "bytes_read": "mread",
    "bytes_written": "mwrite",
    "calls": "n_layers",
    "causal": "pairs",
    "checkpointing": "checkpoint",
    "compare": "diff",
    "ctx": "context",
    "decimals": "digits",
    "devices": "devices replicas mesh",
    "depth": "tree",
    "dev": "device",
    "device": "cuda",
    "doc_lengths": "document_lengths",
    "documents": "document_lengths",
    "dp": "mesh",
    "dtype": "precision",
    "fields": "columns",
    "fit": "memory",
    "flop": "flops",
    "fmt": "format",
    "fp16": "precision dtype",
    "fsdp": "mesh",
    "fused": "fusion",
    "fusion_level": "fusion",
    "gflops": "flops",
    "gmacs": "macs",
    "gpu": "device target",
    "gpus": "devices device replicas",
    "gradient_checkpointing": "checkpoint",
    "group_by": "by",
    "groupby": "by",
    "half": "precision dtype",
    "hardware": "device",
    "head": "top",
    "html": "output",
    "image_size": "input",
    "img_size": "input",
    "input_res": "input",
    "input_shape": "input",
    "input_size": "input",
    "io": "mrw",
    "json": "format output",
    "kv_cache": "cache",
    "kv_dtype": "kv",
    "latency": "bound_seconds",
    "layers": "n_layers",
    "level": "fusion",
    "limit": "memory_limit",
    "link_speed": "link",
    "mac": "macs",
    "madds": "macs",
    "max_length": "seq input context",
    "max_memory": "memory_limit",
    "max_memory_allocated": "peak_memory",
    "max_rows": "top",
    "memory_size": "memory",
    "memory_traffic": "mrw",
    "metric": "column",
    "metrics": "columns",
    "micro_batch_size": "micro_batch",
    "mode": "format",
    "mult_adds": "macs",
    "multadds": "macs",
    "mults": "macs",
    "n_batch": "batch input",
    "n_ctx": "context",
    "n_digits": "digits",
    "n_rows": "top",
    "n_tokens": "tokens",
    "no_fma": "no_fma_1flop",
    "num_devices": "devices",
    "num_gpus": "devices replicas",
    "num_params": "n_params",
    "num_tokens": "tokens",
    "o": "output",
    "opt": "optimizer",
    "optim": "optimizer",
    "order_by": "sort",
    "out": "output",
    "outfile": "output",
    "parameters": "n_params",
    "params": "n_params",
    "peak": "peak_memory",
    "per_module": "tree",
    "per_operator": "summary",
    "policy": "allocator",
    "precision": "precision dtype digits",
    "quantization": "weights",
    "quantize": "weights",
    "ram": "memory",
    "read": "mread",
    "recompute": "checkpoint",
    "remat": "checkpoint",
    "resolution": "input",
    "save": "output",
    "save_to": "output",
    "seq_len": "seq input context",
    "seq_length": "seq input context",
    "sequence_length": "seq input context",
    "shape": "input",
    "sig": "significant",
    "sort_by": "sort",
    "style": "format",
    "sweep": "table",
    "tensor_parallel": "mesh",
    "tflops": "flops",
    "total_params": "n_params",
    "tp": "mesh",
    "training": "train",
    "verbose": "calls",
    "vram": "memory",
    "world_size": "devices",
    "written": "mwrite",
}
"""Names of options and columns to suggest, by the word of another tool: the first one that the caller has."""


def _near(name: str, choices: list[str]) -> list[str]:
    """Return our name for another tool's word, else the first choice that begins with ``name``, else the nearest."""
    from difflib import get_close_matches  # few runs have an error

    base, at, where = name.partition("@")
    if at:  # a quantity on a device, or of a convention
        return [f"{each}@{where}" for each in _near(base, [choice.partition("@")[0] for choice in choices])]
    by_word = {choice.lstrip("-").replace("-", "_"): choice for choice in choices}
    ours = _OUR_WORDS.get(name.lstrip("-").replace("-", "_").lower(), "").split()
    known = [by_word[word] for word in ours if word in by_word][:1]
    if known or (ours and name.startswith("-")):  # an option that resembles the word does something else
        return known
    longer = [choice for choice in choices if name and choice.lower().startswith(name.lower())]
    if longer or not name.startswith("--"):
        return longer[:1] or get_close_matches(name, choices, 1)
    near = get_close_matches(name.lstrip("-"), [choice.lstrip("-") for choice in choices], 1, cutoff=0.7)
    return [f"--{word}" for word in near]


def subs_call(symbols: Iterable[object], most: int = 8) -> str:
    """Return the code that substitutes numbers for symbols.

    >>> subs_call(["batch", "time"])
    'report.subs(batch=…, time=…)'
    >>> subs_call(["past + new"])
    "report.subs({'past + new': …})"
    """
    names = [str(symbol) for symbol in symbols][:most]
    if all(name.isidentifier() for name in names):
        return f"report.subs({', '.join(f'{name}=…' for name in names)})"
    return f"report.subs({{{', '.join(f'{name!r}: …' for name in names)}}})"


MOST_LISTED = 400
"""The maximum length of a list before a suggestion (characters)."""


def unknown(what: str, name: object, expected: Iterable[object]) -> str:
    """Return the message for one or several unknown names, with the expected names and the near matches.

    >>> unknown("column", "flop", ["flops", "macs"])
    "unknown column 'flop' (expected flops, macs). Did you mean 'flops'?"

    Args:
        what: the kind of name, ``column``.
        name: the unknown name, or a list of them.
        expected: the names that exist.
    """
    names = name if isinstance(name, list) else [name]
    choices = [*expected]
    shown, listed, near = ", ".join(map(repr, names)), ", ".join(map(str, choices)), did_you_mean(names, choices)
    if near and len(listed) > MOST_LISTED:  # nobody finds the suggestion behind a long list
        return f"unknown {what} {shown}{near} Expected one of {listed}"
    return f"unknown {what} {shown} (expected {listed}){near}"
