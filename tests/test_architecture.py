"""The arrows between the rooms never turn back: who may import whom."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FRAMEWORKS = {"chainer", "keras", "numpy", "onnx", "sympy", "torch"}
"""What costs time to import: nowhere at module level but in its own frontend."""

ALLOWED = {
    "costcore": {
        "argcomplete",
        *(
            "IPython",
            "costcore",
            "distributed",
            "joblib",
            "matplotlib",
            "openpyxl",
            "pandas",
            "pluggy",
            "pyarrow",
            "pytest",
            "ray",
            "rich",
        ),
        *("sympy", "tensorboard", "texttable", "tomli", "tqdm"),
    },
    "costcore.calculators": {"costcore.ir"},
    "costcore.frontends": {"costcore"},
    "costcore.frontends.chainer": {"costcore", "chainer", "numpy", "pkg_resources"},
    "costcore.frontends.keras_files": {"costcore", "keras"},
    "costcore.frontends.onnx": {"costcore", "google.protobuf", "numpy", "onnx", "sympy"},
    "costcore.frontends.pytorch": {
        "costcore",
        "keras",
        "numpy",
        "sympy",
        "timm",
        "torch",
        "torchvision",
        "transformers",
    },
    "costcore.frontends.pytorch.callbacks": {"costcore", "lightning", "torch", "transformers"},
}
"""By room: what of outside the standard library it may import, a module with everything in it."""

FOUND_BY_PLUGINS = {"costcore.calculators": {"costcore.plugins", "costcore.registry"}}
"""What the ``__init__`` of a room may import besides."""

ROOMS = ("costcore.calculators", "costcore.frontends")

IMPORT_PATH = re.compile(r"costcore(\.\w+)+:\w+(\.\w+)*")
"""A string that names an attribute of a module, which is imported when it is used."""

REGISTERS = {"plugins"}
"""The module whose strings name modules above it: the plug-ins that costcore brings."""


def module_of(file: Path) -> str:
    """The name that a file of a room is imported by."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    inside = parts if parts[0] == "costcore" else ("costcore", *parts)
    return ".".join(inside)


def is_in(module: str, packages: set[str] | tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def imports(source: str, package: str) -> Iterator[tuple[str, bool, bool]]:
    """Every name that is imported, whether importing the file imports it, and whether it is written relative.

    An import path in a string, ``"costcore.reports.report:Report"``, is an import too.
    """
    tree = ast.parse(source)
    later: set[ast.AST] = set()
    for node in ast.walk(tree):
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        if is_for_types or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            later.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            names = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and IMPORT_PATH.fullmatch(node.value):
            later.add(node)
            names = [node.value.replace(":", ".")]
        else:
            continue
        yield from ((name, node not in later, getattr(node, "level", 0) > 0) for name in names)


def turned_back(source: str, module: str, is_package: bool = False) -> set[str]:
    """The imports of a file that its room does not allow.

    A room imports itself by relative imports: type checkers, which read the checkout, do not find it under costcore/.
    """
    package = module if is_package else module.rpartition(".")[0]
    room = max((room for room in ALLOWED if is_in(module, {room})), key=len)
    allowed = ALLOWED[room] | (FOUND_BY_PLUGINS.get(module, set()) if is_package else set())
    own_framework = ALLOWED[room] if room.startswith("costcore.frontends.") else set()
    wrong = set()
    for name, at_once, is_relative in imports(source, package):
        if name.partition(".")[0] in sys.stdlib_module_names | {"tomllib"}:  # of Python 3.11
            continue
        beside = is_in(name, {room}) and is_relative and room != "costcore"
        outside = not beside and (not is_in(name, allowed) or is_in(name, ROOMS))
        too_early = at_once and name.partition(".")[0] in FRAMEWORKS - own_framework
        if outside or too_early:
            wrong.add(name)
    return wrong


FILES = sorted(file for room in ("costcore", "calculators", "frontends") for file in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_imports_follow_the_arrows(file):
    is_package = file.stem == "__init__"
    module = module_of(file.parent if is_package else file)
    assert turned_back(file.read_text(encoding="utf-8"), module, is_package) == set()


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("costcore.reports.report", "import torch", {"torch"}),
        ("costcore.reports.report", "def f():\n    import torch", {"torch"}),
        ("costcore.reports.report", "from costcore.calculators import conv", {"costcore.calculators.conv"}),
        ("costcore.reports.report", "from costcore import calculators", {"costcore.calculators"}),
        ("costcore.reports.report", "from ..frontends import onnx", {"costcore.frontends.onnx"}),
        ("costcore.reports.report", "from importlib import import_module\nimport_module('torch')", {"torch"}),
        ("costcore.reports.report", "X = 'costcore.frontends.onnx:y'", {"costcore.frontends.onnx.y"}),
        ("costcore.numbers", "import sympy", {"sympy"}),
        ("costcore.numbers", "if TYPE_CHECKING:\n    import sympy\ndef f():\n    import sympy", set()),
        ("costcore.reports.report", "import json\nfrom costcore.ir import Layer\nimport pluggy", set()),
        ("costcore.calculators.conv", "from costcore.ir import Layer", set()),
        ("costcore.calculators.conv", "from .windows import window", set()),
        ("costcore.calculators.conv", "from costcore.calculators.windows import a", {"costcore.calculators.windows.a"}),
        ("costcore.calculators.conv", "from costcore.trace.call import Call", {"costcore.trace.call.Call"}),
        ("costcore.calculators.conv", "from ..frontends import onnx", {"costcore.frontends.onnx"}),
        ("costcore.calculators.conv", "import numpy", {"numpy"}),
        ("costcore.frontends.onnx.table", "import onnx\nfrom costcore.translate import Row", set()),
        ("costcore.frontends.onnx.table", "import torch", {"torch"}),
        ("costcore.frontends.onnx.table", "from ..pytorch import table", {"costcore.frontends.pytorch.table"}),
        ("costcore.frontends.onnx.table", "from costcore.calculators.conv import x", {"costcore.calculators.conv.x"}),
    ],
)
def test_the_walk_sees_what_it_should(module, source, wrong):
    assert turned_back(source, module) == wrong


def source_of(module: str) -> str:
    """The text of a module of the three rooms."""
    found = next(file for file in FILES if module_of(file.parent if file.stem == "__init__" else file) == module)
    return found.read_text(encoding="utf-8")


@cache
def import_graph() -> dict[str, set[str]]:
    """By module of the three rooms: the modules it imports at module level, for types, or inside a function."""
    modules = {module_of(file.parent if file.stem == "__init__" else file): file for file in FILES}
    graph = {}
    for module, file in modules.items():
        package = module if file.stem == "__init__" else module.rpartition(".")[0]
        imported = set()
        for name, *_ in imports(file.read_text(encoding="utf-8"), package):
            while name and name not in modules:
                name = name.rpartition(".")[0]
            imported.add(name)
        graph[module] = imported - {"", module}
    return graph


def circles(graph: dict[str, set[str]]) -> set[str]:
    """The modules that import each other in a circle, with those between two circles."""
    left = {module: set(imported) for module, imported in graph.items()}
    while idle := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in idle}
    while unused := left.keys() - set().union(*left.values()):
        left = {module: imported for module, imported in left.items() if module not in unused}
    return set(left)


def test_no_imports_form_a_circle():
    assert circles(import_graph()) == set()


def folder_graph(depth: int) -> dict[str, set[str]]:
    """The imports between folders and files at most ``depth`` names below the root, without those inside of one.

    The file ``__init__`` of a folder counts as a file beside the others: importing it needs none of them.
    """
    modules = import_graph()
    packages = {module.rpartition(".")[0] for module in modules}

    def place(module: str) -> str:
        names = [*module.split("."), *(["__init__"] if module in packages else [])]
        return ".".join(names[:depth])

    graph: dict[str, set[str]] = {}
    for module, imported in modules.items():
        graph.setdefault(place(module), set()).update(map(place, imported))
    return {name: places - {name} for name, places in graph.items()}


@pytest.mark.parametrize("depth", range(2, 7))
def test_no_folders_import_each_other_in_a_circle(depth):
    assert circles(folder_graph(depth)) == set()


FLOORS = (
    {"_version", "errors", "isolated", "numbers"},
    {"files", "ir", "text"},
    {"trace", "translate"},
    {"frontend", "ledger"},
    {"plugins"},
    {"registry", "tables"},
    {"counting"},
    {"graphs"},
    {"analyses"},
    {"reports"},
    {"api"},
    {"studies"},
    {"cli", "pytest_plugin"},
    {"__main__"},
)
"""The folders and files of the engine from the ground up: each imports only what is below it."""

FOR_FRONTENDS = {
    *(
        "_version",
        "counting",
        "errors",
        "files",
        "frontend",
        "graphs",
        "ir",
        "isolated",
        "numbers",
        "plugins",
        "registry",
        "trace",
    ),
    "translate",
}
"""What frontends import of the engine."""

ABILITIES = {
    "pytorch.calibration": {"analyses.timing", "api.hook"},
    "pytorch.callbacks": {"analyses.devices", "studies.meter"},
    "pytorch.checkpoints": {"studies.serving"},
    "pytorch.training": {"studies.meter"},
    "pytorch.schedule": {"analyses.fusion"},
    "pytorch.serving": {"studies.serving"},
    "pytorch.traces.ranks": {"studies.ranks"},
}
"""What else parts of a frontend may import: an optional ability returns what the study that asks for it defines."""


def test_every_file_of_the_engine_is_on_a_floor():
    beside = {file.stem if file.is_file() else file.name for file in (ROOT / "costcore").iterdir()}
    assert set().union(*FLOORS) == beside - {"__init__", "__pycache__", "py"}


def engine_imports(prefix: str) -> Iterator[tuple[str, str]]:
    """Every module below ``prefix`` with what it imports of the engine, both without ``costcore.``."""
    for module, imported in import_graph().items():
        if is_in(module, {prefix}) and module != "costcore":
            inner = {name for name in imported if not is_in(name, ROOMS)} - {"costcore"}
            yield from ((module.removeprefix("costcore."), name.removeprefix("costcore.")) for name in inner)


def test_the_engine_imports_downwards():
    height = {name: level for level, names in enumerate(FLOORS) for name in names}
    ends = (
        (module, name, module.partition(".")[0], name.partition(".")[0]) for module, name in engine_imports("costcore")
    )
    up = {(m, n) for m, n, a, b in ends if a not in ("calculators", "frontends") and a != b and height[a] <= height[b]}
    assert up == set()


def test_strings_name_no_module_above_them():
    height = {name: level for level, names in enumerate(FLOORS) for name in names}
    up = set()
    for module in import_graph():
        own = module.split(".")[1:2]
        for node in ast.walk(ast.parse(source_of(module))):
            value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
            if own and own[0] in height and isinstance(value, str) and value in import_graph() and value != module:
                named = value.split(".")[1] if value.count(".") else ""
                if named in ("calculators", "frontends") or height.get(named, -1) > height[own[0]]:
                    up.add((module.removeprefix("costcore."), value))
    assert {module for module, _ in up} == REGISTERS


def test_frontends_import_their_part_of_the_engine():
    others = set()
    for module, name in engine_imports("costcore.frontends"):
        inside = module.removeprefix("frontends.")
        allowed = FOR_FRONTENDS.union(*(names for part, names in ABILITIES.items() if is_in(inside, {part})))
        if not is_in(name, allowed):
            others.add((inside, name))
    assert others == set()


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, set()),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}, "d": set()}, {"a", "b"}),
        ({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}, {"a", "b", "c"}),
    ],
)
def test_circles_are_found(graph, found):
    assert circles(graph) == found


def test_the_graph_has_imports_of_all_four_kinds():
    source = "import a\nif TYPE_CHECKING:\n    from b import c\ndef f():\n    from .d import e\nX = 'costcore.f:g.h'"
    assert {name for name, *_ in imports(source, "package")} == {"a", "b.c", "package.d.e", "costcore.f.g.h"}


NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}
"""The public methods of a named tuple, which begin with an underscore all the same."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_private_names_are_used_in_their_own_file_only(file):
    """Frontends read private attributes of their framework, but import no private name of this package."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    imported = {
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("costcore."))
        for alias in node.names
        if is_private(alias.name)
    }
    assert imported == set()
    if not file.is_relative_to(ROOT / "frontends"):
        defined = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
        defined |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        attributes = [node for node in nodes if isinstance(node, ast.Attribute) and is_private(node.attr)]
        used = {node.attr for node in attributes if ast.unparse(node.value) not in ("self", "cls")}
        assert used <= defined
