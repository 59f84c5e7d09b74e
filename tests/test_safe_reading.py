"""What SECURITY.md promises of code: every start of a process and every call that loads code or weights is known here.

The rules hold for the package, the plug-ins, the tools, the examples, the probes and the benchmarks; not for tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]

FOLDERS = ("costcore", "calculators", "frontends", "plugins", "tools", "examples", "probes", "benchmarks")
SKIPPED = {"tests", ".venv", "environments", "build", "__pycache__", ".git"}

STARTS = {
    *(f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output", "getoutput")),
    *("subprocess.getstatusoutput", "os.system", "os.popen", "os.fork", "os.forkpty", "os.startfile", "pty.spawn"),
    *(f"os.{kind}{how}" for kind in ("exec", "spawn") for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    *("os.posix_spawn", "os.posix_spawnp", "concurrent.futures.ProcessPoolExecutor", "webbrowser.open"),
    *("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "ctypes.util.find_library"),
    *("platform.processor", "platform.architecture", "joblib.Parallel", "ray.remote", "client.submit"),
    *(f"{module}.{name}" for module in ("multiprocessing", "torch.multiprocessing", "torch.distributed") for name in (
        "Process", "Pool", "get_context", "set_start_method", "spawn", "start_processes", "launch")),
}  # fmt: skip
"""What starts a process, or asks somebody to."""

STARTS_ALLOWED = {
    ("costcore/studies/sweeps/process.py", "joblib.Parallel"): "workers of the cluster that the user configured",
    ("costcore/studies/sweeps/process.py", "ray.remote"): "workers of the cluster that the user configured",
    ("costcore/studies/sweeps/process.py", "client.submit"): "workers of the cluster that the user configured",
    ("frontends/pytorch/calibration/__init__.py", "subprocess.run"): "nvidia-smi, from the search path",
    ("frontends/pytorch/calibration/__init__.py", "platform.processor"): "uname, from the search path",
    ("tools/test_matrix.py", "subprocess.run"): "python -I, of this machine or of an environment made here",
    ("tools/test_matrix.py", "subprocess.Popen"): "pytest, of this repository in its own folder",
    ("tools/mutants.py", "os.fork"): "pytest, of this repository in its own folder",
    ("tools/onnx_variants.py", "concurrent.futures.ProcessPoolExecutor"): "ONNX Runtime, on models that are made here",
    ("probes/costcore_probes/runner.py", "subprocess.run"): "a tool, by code whose search path is set at once",
    ("probes/costcore_probes/worker.py", "os.fork"): "this process, once more",
    ("benchmarks/cold_start.py", "subprocess.run"): "costcore, in a folder that was just made",
    ("benchmarks/gpu_protocol.py", "subprocess.run"): "nvidia-smi, from the search path",
    ("benchmarks/sweep.py", "subprocess.run"): "costcore, in a folder that was just made",
}
"""Starts of other things than a Python that :func:`costcore.isolated.python_command` isolates."""

LOADS = {
    *(f"{module}.{name}" for module in ("pickle", "cloudpickle", "dill", "marshal") for name in ("load", "loads")),
    *("pickle.Unpickler", "joblib.load", "shelve.open", "torch.load", "torch.jit.load", "torch.export.load"),
    *("torch.hub.load", "torch.ops.load_library", "numpy.load", "onnx.load", "onnx.load_model", "ctypes.CDLL"),
    *("eval", "exec", "compile", "__import__", "importlib.import_module", "importlib.util.module_from_spec"),
    *("runpy.run_path", "runpy.run_module", "yaml.load", "keras.models.load_model", "tensorflow.saved_model.load"),
}
"""What runs code that is data, or opens files of weights."""

LOADING_METHODS = {
    *("from_pretrained", "from_config", "create_model", "get_model", "get_model_builder", "exec_module", "load_module"),
    *("load_state_dict_from_url", "hf_hub_download", "snapshot_download", "cached_file", "load_library", "load_file"),
    *("LoadLibrary", "load_weights"),
}
"""The same, by the names of functions and methods of libraries."""

NEEDED = {
    "from_pretrained": {"local_files_only": True, "trust_remote_code": False},
    "from_config": {"trust_remote_code": False},
    "cached_file": {"local_files_only": True},
    "create_model": {"pretrained": False},
    "get_model": {"weights": None},
}
"""With which arguments functions of libraries neither look for a model elsewhere nor load code or weights."""

OWN_MODULES = "modules of costcore, or of an installed package, by names in its code"
LOADS_ALLOWED = {
    ("costcore/api/estimate.py", "importlib.import_module"): "code that the user names",
    ("costcore/api/estimate.py", "importlib.util.module_from_spec"): "code that the user names",
    ("costcore/api/estimate.py", "exec_module"): "code that the user names",
    ("costcore/studies/sweeps/child.py", "pickle.loads"): "tasks of the process that started this one",
    ("costcore/studies/sweeps/process.py", "pickle.loads"): "rows of a process that was started here",
    ("costcore/analyses/sizes/formulas.py", "eval"): "code that is written here, of numbers and own functions",
    ("frontends/pytorch/libraries.py", "get_model_builder"): "called with weights=None",
    ("frontends/pytorch/programs.py", "torch.load"): "called with weights_only=True",
    ("frontends/pytorch/programs.py", "torch.export.load"): "of a file that was checked before",
    ("frontends/pytorch/programs.py", "torch.jit.load"): "TorchScript, which is no Python",
    ("benchmarks/layer_exports.py", "exec"): "code that is written here",
    ("benchmarks/layer_exports.py", "compile"): "code that is written here",
    ("benchmarks/conventions.py", "eval"): "code of the user's table",
    ("tools/mutants.py", "compile"): "files of this repository",
    ("costcore/studies/sweeps/rows.py", "marshal.loads"): "rows that this process packed, in its memory",
    ("costcore/trace/call.py", "compile"): "expressions that are written here; they are not run",
    **{
        (file, name): OWN_MODULES
        for name, files in {
            "importlib.import_module": (
                *("costcore/__init__.py", "costcore/plugins.py"),
                *("costcore/analyses/__init__.py", "costcore/cli/main.py", "costcore/registry.py"),
                *("costcore/studies/sweeps/process.py", "calculators/__init__.py", "frontends/chainer/__init__.py"),
                *("frontends/pytorch/training.py", "frontends/pytorch/torch_private.py"),
                "frontends/pytorch/libraries.py",  # a module of transformers, beside that of a configuration
                "frontends/pytorch/parallel/plan.py",
                "plugins/costcore-jax/costcore_jax/adapters/__init__.py",
                *("tools/differential.py", "tools/make_details_md.py", "benchmarks/conventions.py"),
                *("benchmarks/networks.py", "benchmarks/real_models.py", "benchmarks/memory.py"),
                *("probes/costcore_probes/worker.py", "probes/costcore_probes/adapter.py"),
                *("probes/costcore_probes/frameworks/pytorch.py", "probes/costcore_probes/frameworks/__init__.py"),
                "probes/costcore_probes/catalogue.py",
            ),
            "__import__": ("tools/site_pages.py", "tools/mutants.py"),
        }.items()
        for file in files
    },
}  # fmt: skip

NETWORK = {
    "socket",
    "ssl",
    "http",
    "urllib",
    "urllib3",
    "requests",
    "httpx",
    "aiohttp",
    "ftplib",
    "smtplib",
    "huggingface_hub",
}
"""Modules that open connections."""


class Use(NamedTuple):
    """A function that a file calls or passes on: its full name, and the call."""

    file: str
    name: str
    call: ast.Call | None
    is_isolated: bool


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not SKIPPED.intersection(path.relative_to(ROOT).parts):
                yield path


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Return what the names of a file stand for, wherever it imports them."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def full_name(node: ast.AST, names: dict[str, str]) -> str:
    """Return the dotted name of an expression; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ".".join(["?", *reversed(parts)]) if parts else ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def uses(source: str, file: str = "file.py") -> Iterator[Use]:
    """Yield what a file starts or loads: functions that it calls, and those that it passes to other functions."""
    tree = ast.parse(source)
    names = imported_names(tree)
    isolated = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_isolated(node.value, names)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            command = node.args[0] if node.args else None
            safe = _is_isolated(command, names) or (isinstance(command, ast.Name) and command.id in isolated)
            yield Use(file, full_name(node.func, names), node, safe)
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                if isinstance(argument, (ast.Name, ast.Attribute)):
                    yield Use(file, full_name(argument, names), None, False)


def _is_isolated(node: ast.AST | None, names: dict[str, str]) -> bool:
    return isinstance(node, ast.Call) and full_name(node.func, names) == "costcore.isolated.python_command"


def loaded_name(use: Use) -> str:
    """Return the name by which a use is in the tables; empty if it loads nothing."""
    last = use.name.rpartition(".")[2]
    if use.name in LOADS and (use.call is not None or "." in use.name):  # not an argument of the name of a built-in
        return use.name
    return last if last in LOADING_METHODS and (use.call is not None or "." in use.name) else ""


def has_needed(use: Use, name: str) -> bool:
    """Return whether a call has the arguments with which nothing is loaded."""
    if use.call is None or name not in NEEDED:
        return False
    given = {each.arg: each.value.value for each in use.call.keywords if isinstance(each.value, ast.Constant)}
    return all(key in given and given[key] is value for key, value in NEEDED[name].items())


@cache
def all_uses() -> list[Use]:
    return [use for path in files() for use in uses(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))]


def test_every_start_of_a_process_is_isolated_or_known():
    found = {(use.file, use.name) for use in all_uses() if use.name in STARTS and not use.is_isolated}
    assert found == STARTS_ALLOWED.keys()
    isolated = {use.file for use in all_uses() if use.name in STARTS and use.is_isolated}
    assert isolated >= {
        "costcore/studies/sweeps/process.py",
        "frontends/onnx/inference.py",
        "plugins/costcore-stablehlo/costcore_stablehlo/model.py",
    }


def test_everything_that_loads_code_or_weights_is_known():
    found = {(use.file, name) for use in all_uses() if (name := loaded_name(use)) and not has_needed(use, name)}
    assert found == LOADS_ALLOWED.keys()


def test_nothing_opens_a_connection():
    for path in files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in imported_names(tree).values():
            assert (
                name.partition(".")[0] not in NETWORK or name == "urllib.parse" or name.startswith("urllib.parse.")
            ), path


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import subprocess\nsubprocess.run([sys.executable, '-m', 'x'])", "subprocess.run"),
        ("from subprocess import Popen as P\nP('x')", "subprocess.Popen"),
        ("import subprocess as s\ndef f():\n    s.check_output('x')", "subprocess.check_output"),
        ("from functools import partial\nimport subprocess\npartial(subprocess.run, 'x')", "subprocess.run"),
        ("import os\nos.execvp('x', [])", "os.execvp"),
        ("from joblib import Parallel\nParallel(2)", "joblib.Parallel"),
    ],
)
def test_the_walk_sees_starts(source, name):
    assert [use.name for use in uses(source) if use.name in STARTS and not use.is_isolated] == [name]


def test_the_walk_knows_isolated_starts():
    source = "import subprocess\nfrom costcore.isolated import python_command\n"
    assert all(
        use.is_isolated for use in uses(source + "c = python_command('')\nsubprocess.run(c)") if use.name in STARTS
    )
    assert all(
        use.is_isolated for use in uses(source + "subprocess.run(python_command(''), x=1)") if use.name in STARTS
    )


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch\ntorch.load('x')", "torch.load"),
        ("from pickle import loads\nloads(b'')", "pickle.loads"),
        ("import pickle\nmap(pickle.loads, x)", "pickle.loads"),
        (
            "from transformers import AutoModel\nAutoModel.from_pretrained('x', local_files_only=True)",
            "from_pretrained",
        ),
        ("x.from_config(c)", "from_config"),
        ("x.from_config(c, trust_remote_code=True)", "from_config"),
        ("f().from_config(c)", "from_config"),
        ("import timm\ntimm.create_model('x', pretrained=True)", "create_model"),
        ("exec('x')", "exec"),
        ("from importlib import import_module as i\ni('x')", "importlib.import_module"),
    ],
)
def test_the_walk_sees_loads(source, name):
    found = [loaded for use in uses(source) if (loaded := loaded_name(use)) and not has_needed(use, loaded)]
    assert found == [name]
