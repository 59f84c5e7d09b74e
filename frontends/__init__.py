"""The frontends: one package per framework, imported when that framework is used."""

from __future__ import annotations

import re
from pathlib import Path

from costcore.files import is_file
from costcore.frontend import FrontendSpec
from costcore.plugins import hookimpl

if __name__ != "costcore.frontends":
    raise ImportError("import costcore.frontends, not frontends")

ONNX_OPTIONS = {
    "dims": "values of symbolic dimensions",
    "shapes": "shapes of values that cannot be inferred",
    "regroup": "count the nodes of a decomposed operator as this operator",
    "explain_regroup": "note why nodes do not match the patterns of regroup",
    "check_shapes": "compare inferred shapes with onnx.shape_inference",
    "max_nodes": "maximum number of nodes to which functions, loops and branches expand",
    "keep_qdq": "count QuantizeLinear and DequantizeLinear nodes one by one, not as parts of quantized operators",
}

TRACE_OPTIONS = {
    "et": "the execution trace recorded together with a profiler trace",
    "graphs": "the trace of the capture of CUDA or HIP graphs, if the trace only replays them",
    "profiler_step": "number of the profiler step to count",
}

PYTORCH_OPTIONS = (
    "backward",
    "dtype",
    "regroup",
    "memory",
    "optimizer",
    "step",
    "loss",
    "checkpoint",
    "precision",
    "mesh",
    "plan",
    "rank",
    "device",
    "nonzero",
)

PROGRAM_OPTIONS = ("backward", "dtype", "memory", "optimizer", "step", "loss", "precision")

KERAS_OPTIONS = ("backward", "dtype", "explain_regroup", "loss", "memory", "optimizer", "regroup", "step")

PYTORCH_ABILITIES = {
    "library_model": f"{__name__}.pytorch.libraries:library_model",
    "default_inputs": f"{__name__}.pytorch.libraries:default_inputs",
    "cached_model": f"{__name__}.pytorch.serving:MetaCachedModel",
    "passes_of": f"{__name__}.pytorch.training:passes_of",
    "calibrate": f"{__name__}.pytorch.calibration:calibrate",
    "distribution": f"{__name__}.pytorch.parallel.strategies:Distribution",
    "process_settings": f"{__name__}.pytorch.naming:process_settings",
    "schedule": f"{__name__}.pytorch.schedule:schedule",
    "without_gpu": f"{__name__}.pytorch.capture.surroundings:without_gpu",
    "finetuned": f"{__name__}.pytorch.finetuning:finetuned",
}


@hookimpl
def costcore_frontends() -> tuple[FrontendSpec, ...]:
    """Return the built-in frontends."""
    return (
        FrontendSpec(
            *("pytorch", "torch", f"{__name__}.pytorch"),
            model_options=PYTORCH_OPTIONS,
            models=("a torch.nn.Module", "a torch.export.ExportedProgram"),
            tf32=("conv",),
            libraries=("timm", "torchvision", "hf"),
            abilities=PYTORCH_ABILITIES,
            runs_functions=True,
        ),
        FrontendSpec(
            *("chainer", "chainer", f"{__name__}.chainer.estimate"),
            native_calculators=True,
            model_options=("backward",),
            computes=True,
            models=("a chainer.Link",),
        ),
        FrontendSpec(
            *("onnx", "onnx", f"{__name__}.onnx", (".onnx",), ONNX_OPTIONS),
            models=("an ONNX ModelProto", "its bytes", "the path of an .onnx file"),
        ),
        FrontendSpec(
            *("traces", "torch", f"{__name__}.pytorch.traces"),
            options=TRACE_OPTIONS,
            models=("a trace of torch.profiler",),
            tf32=("conv",),
            reads=is_trace,
            abilities={"rank_work": f"{__name__}.pytorch.traces.ranks:rank_work"},
        ),
        FrontendSpec(
            *("checkpoints", "torch", f"{__name__}.pytorch.checkpoints", (".gguf",)),
            model_options=("memory",),
            models=("a .gguf file", "a folder of .safetensors files"),
            tf32=("conv",),
            abilities={"cached_model": f"{__name__}.pytorch.checkpoints:cached_model"},
            reads_folder=is_model_folder,
            is_run=True,
        ),
        FrontendSpec(
            *("programs", "torch", f"{__name__}.pytorch.programs", (".pt2", ".pt", ".pth", ".torchscript")),
            model_options=PROGRAM_OPTIONS,
            models=("a .pt2 file", "a TorchScript .pt file"),
            tf32=("conv",),
            is_run=True,
        ),
        FrontendSpec(
            *("keras", "keras", f"{__name__}.keras_files", (".keras",)),
            options={"trips": "iterations of each loop with a data-dependent trip count"},
            model_options=KERAS_OPTIONS,
            values={"trips": int},
            models=("a .keras file",),
            tf32=("conv",),
            is_run=True,
        ),
    )


# Folders of transformers models, recognized by their files.


def is_model_folder(path: str) -> bool:
    """Return whether a folder has a configuration of transformers and weights in safetensors files."""
    folder = Path(path)
    return is_file(folder / "config.json") and any(folder.glob("*.safetensors"))


# Traces of PyTorch, recognized by their first bytes.


_PROFILER_KEY = re.compile(rb'"(traceEvents|deviceProperties|distributedInfo|rocprofiler-sdk-tool)"\s*:')

_NODE_LIST = re.compile(rb'"nodes"\s*:\s*\[')

_NODE_FIELD = re.compile(rb'"(ctrl_deps|fw_parent|op_schema)"|\[pytorch\|profiler\|execution_trace')

_EVENT_LIST = re.compile(rb'\s*\[\s*\{(?![^{}]*"cat"\s*:\s*"(Session|Node)")[^{}]*"ph"\s*:')
"""The beginning of a list of trace events. A list of ONNX Runtime begins with a session event and does not match."""


_DEVICE_EXPORT = re.compile(rb"SQLite format 3\0|[^\n]*\bKernel_Name\b[^\n]*\bStart_Timestamp\b")
"""The beginning of an export of Nsight Systems, and of a kernel trace of rocprofv3."""


_PROTOBUF = re.compile(
    rb"\n[\x80-\xff]{0,4}[\x01-\x7f]"
    rb"(([\x30-\x7f]|[\x80-\xff][\x02-\x0f]).{0,200}?[\0-\x08\x0e-\x1f]"
    rb"|(\x08[\x80-\xff]{0,9}[\0-\x7f])?\x12[\x01-\x7f](/|Task |#))",
    re.DOTALL,
)
"""The beginning of a protobuf file. Perfetto: a packet whose first field has a number above 5. Profilers of JAX and
TensorFlow: a plane with its name."""


_PROTOBUF_AS_TEXT = re.compile(rb"\n.{0,24}\xef\xbf\xbd.{0,24}/(device|host):", re.DOTALL)
"""The beginning of a plane in a file that was wrongly saved as text, with U+FFFD instead of some bytes."""


def is_trace(head: bytes) -> bool:
    """Return whether a file is a trace of a profiler or an execution trace, by its first bytes."""
    if _DEVICE_EXPORT.match(head) or _PROTOBUF.match(head) or _PROTOBUF_AS_TEXT.match(head):
        return True
    head = head.removeprefix(b"\xef\xbb\xbf")
    if head.lstrip()[:1] == b"{":
        is_execution_trace = _NODE_LIST.search(head) is not None and _NODE_FIELD.search(head) is not None
        return _PROFILER_KEY.search(head) is not None or is_execution_trace
    return _EVENT_LIST.match(head) is not None
