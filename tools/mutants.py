"""Change one operator, number or statement of the code at a time, and run its tests: python tools/mutants.py --n 20.

A change that no test notices, a survivor, is printed with its difference. It is either equivalent, so that nothing
could notice it, or a test is missing. The sample is seeded: ``--only NUMBER`` repeats one mutant.

``--record`` first writes which tests of every area run which lines, and how long they take. A mutant then runs only
the tests that run its line, the fastest files first, until one fails. Each mutant has its own process, forked from one
that has imported the frameworks. A process over its time limit is killed and counts as noticed. Python programs that
tests start run the mutant, too. The areas ``coreml``, ``openvino``, ``tflite`` and ``graphs`` need an environment with
all three plug-ins and coverage.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import os
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import CodeType, ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "build/mutants"
VARIABLE = "COSTCORE_MUTANT"
"""The environment variable of the processes of a mutant; it has the mutant."""

ANALYSES, STUDIES, PYTORCH, ONNX = "core/analyses", "core/studies", "frontends/pytorch", "frontends/onnx"
DOORS = tuple(f"{PYTORCH}/test_{name}.py" for name in ("doors", "estimate", "mistakes", "any_model", "displayed"))
READERS = ("coreml", "openvino", "tflite")
VIEWS = ("core/tables/test_quantities.py", "core/reports/plots", "core/reports/exports", "core/reports/html")

AREAS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "memory": (
        ("costcore/analyses/memory",),
        (
            f"{ANALYSES}/memory",
            *(f"core/tables/test_{name}.py" for name in ("memory_table", "quantities")),
            "core/reports/exports/test_memory_svg.py",
            *(f"core/reports/html/test_{name}_section.py" for name in ("memory", "arena")),
            "core/reports/plots",
            *(f"{PYTORCH}/memory/test_{name}.py" for name in ("cases", "rules", "options", "fit", "optimizers")),
            f"{PYTORCH}/test_arena.py",
            f"{ONNX}/test_arena.py",
        ),
    ),
    "fusion": (
        ("costcore/analyses/fusion",),
        (
            f"{ANALYSES}/fusion",
            f"{ONNX}/test_fusion.py",
            f"{PYTORCH}/test_schedule.py",
            "core/cli/test_time.py",
            *VIEWS,
        ),
    ),
    "timing": (
        ("costcore/analyses/timing",),
        (
            f"{ANALYSES}/timing",
            "core/cli/test_time.py",
            "core/tables/test_quantities.py",
            "core/reports/plots",
            "core/reports/html/test_time_section.py",
            "core/reports/test_intensity.py",
        ),
    ),
    "sizes": (
        ("costcore/analyses/sizes",),
        (
            f"{ANALYSES}/sizes",
            *(f"{PYTORCH}/sizes/test_{name}.py" for name in ("networks", "plot", "whole_reports")),
            "core/reports/test_symbolic_views.py",
            "frontends/chainer/test_sizes.py",
        ),
    ),
    "serving": (("costcore/studies/serving",), (f"{STUDIES}/serving", f"{PYTORCH}/serving")),
    "training": (
        ("costcore/studies/training",),
        (f"{STUDIES}/training", f"{PYTORCH}/test_training.py", "core/cli/test_train.py"),
    ),
    "conventions": (
        ("costcore/analyses/conventions",),
        (
            f"{ANALYSES}/conventions",
            f"{PYTORCH}/conventions",
            "core/cli/test_conventions.py",
            "core/cli/test_listings.py",
            f"{ONNX}/test_conventions.py",
            f"{PYTORCH}/test_training.py",
        ),
    ),
    "receptive_field": (
        ("costcore/analyses/receptive_field",),
        (
            f"{ANALYSES}/receptive_field",
            f"{PYTORCH}/test_receptive_field.py",
            f"{PYTORCH}/test_receptive_field_borders.py",
            "whole_networks/test_receptive_fields.py",
        ),
    ),
    "collectives": (
        (
            "costcore/analyses/devices/device.py",
            "calculators/collective.py",
            f"{PYTORCH}/parallel/strategies.py",
            f"{PYTORCH}/rows/movement.py",
        ),
        (
            f"{ANALYSES}/devices/test_communication.py",
            "calculators/test_collective.py",
            f"{PYTORCH}/parallel",
            f"{PYTORCH}/plans",
        ),
    ),
    "sweeps": (("costcore/studies/sweeps",), (f"{STUDIES}/sweeps",)),
    "api": (
        ("costcore/api",),
        (
            *("core/api", "core/cli", "core/registry", "core/trace", "core/ledger/test_caveats.py"),
            *(*DOORS, f"{PYTORCH}/test_finetuning.py", f"{PYTORCH}/test_libraries.py", "core/test_pytest_plugin.py"),
            *(f"{PYTORCH}/memory/test_{name}.py" for name in ("options", "rules")),
            *(f"{PYTORCH}/capture/test_{name}.py" for name in ("interrupts", "overlapping_hooks", "threads")),
            *(f"{PYTORCH}/test_{name}.py" for name in ("attention_pairs", "own_costs", "spelling", "undecided")),
            f"{PYTORCH}/recording/test_stopwatch.py",
            f"{PYTORCH}/sizes/test_networks.py",
        ),
    ),
    "pricing": (
        tuple(
            f"costcore/{name}"
            for name in ("counting.py", "ir.py", "ledger", "numbers.py", "registry.py", "translate.py")
        ),
        (
            *(f"core/{name}" for name in ("api", "ledger", "numbers", "registry", "reports/serialization", "trace")),
            *(f"core/test_{name}.py" for name in ("broken_plugins", "ir", "messages", "plugins")),
            *(f"{ANALYSES}/{name}.py" for name in ("memory/test_ledger", "sizes/test_formulas")),
            *("core/cli/test_user_mistakes.py", "core/tables/test_layer_table.py", "frontends/chainer/capture"),
            *(*DOORS, f"{PYTORCH}/test_own_costs.py"),
        ),
    ),
    "tables": (
        ("costcore/tables", "costcore/text"),
        (
            *("core/tables", "core/text", "core/reports", "core/cli"),
            "core/ledger/test_module_tree.py",
            *(f"{STUDIES}/sweeps/test_{name}.py" for name in ("scatter", "table_of_reports")),
            *(f"{STUDIES}/{name}" for name in ("budgets", "fit", "serving/test_requests.py")),
            *(f"{PYTORCH}/{name}.py" for name in ("sizes/test_plot", "test_screen", "test_weights")),
        ),
    ),
    "reports": (("costcore/reports",), ("core/reports", "core/tables", "core/cli", "whole_networks/reports")),
    "cli": (
        ("costcore/cli",),
        (
            *("core/cli", "core/reports/html/test_about.py", "core/reports/plots", f"{STUDIES}/sweeps/test_command.py"),
            *(f"core/tables/test_{name}.py" for name in ("fit", "memory_table", "quantities")),
            *(f"{ANALYSES}/{name}.py" for name in ("fusion/test_view", "memory/test_edges")),
            *(f"{PYTORCH}/memory/test_{name}.py" for name in ("command_line", "fit", "memory_command")),
            *(f"{PYTORCH}/{name}.py" for name in ("plans/test_plan", "serving/test_serve_command", "sizes/test_plot")),
            *(f"{PYTORCH}/traces/test_{name}.py" for name in ("device_files", "graphs", "ranks")),
            *(f"{PYTORCH}/test_{name}.py" for name in ("doors", "finetuning", "libraries", "training")),
            f"{PYTORCH}/calibration/test_measure.py",
            f"{ONNX}/regroup/test_suggestion.py",
        ),
    ),
    "graphs": (("costcore/graphs",), ("core/graphs", "plugins/costcore-tflite/tests")),
    **{name: ((f"plugins/costcore-{name}/costcore_{name}",), (f"plugins/costcore-{name}/tests",)) for name in READERS},
}
"""The code and the tests of every area. The examples in the docstrings of the code are among its tests."""

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}


_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


class Mutant(NamedTuple):
    """A changed file: the position of the changed node in ``ast.walk``, and the number of the change."""

    area: str
    path: Path
    node: int
    change: int

    def tree(self) -> ast.Module:
        """Return the changed tree."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        node = [*ast.walk(tree)][self.node]
        _change(node, self.change)
        return ast.fix_missing_locations(tree)

    def place(self) -> tuple[str, int, int]:
        """Return the file, and the first and last line of the changed statement; 0 and 0 outside of functions."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        node = [*ast.walk(tree)][self.node]
        line = getattr(node, "lineno", 0)
        first, last, is_run = line, getattr(node, "end_lineno", line), False
        for each in ast.walk(tree):
            if not isinstance(each, ast.stmt) or not each.lineno <= line <= (each.end_lineno or 0):
                continue
            if isinstance(each, _FUNCTION):
                is_run = is_run or each.body[0].lineno <= line
            elif not hasattr(each, "body"):
                first, last = each.lineno, each.end_lineno or each.lineno
        return str(self.path.relative_to(ROOT)), first * is_run, last * is_run

    def difference(self) -> str:
        """Return the lines that differ, with the line of the change."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        line = getattr([*ast.walk(tree)][self.node], "lineno", 0)
        both = (ast.unparse(each).splitlines() for each in (tree, self.tree()))
        changed = [text for text in unified_diff(*both, n=0, lineterm="") if text[:2] not in ("--", "++", "@@")]
        return "\n".join([f"{self.path.relative_to(ROOT)}:{line}", *(f"    {text}" for text in changed)])


def changes(node: ast.AST) -> int:
    """Return the number of possible changes of a node."""
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return int(type(node.op) in ARITHMETIC) + isinstance(node, ast.AugAssign)
    if isinstance(node, ast.Compare):
        return len(COMPARISONS.get(type(node.ops[0]), ()))
    if isinstance(node, ast.Constant):
        return int(type(node.value) in (int, bool, float))
    if isinstance(node, ast.Expr):
        return int(isinstance(node.value, ast.Call))
    return int(
        isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)))
    )


def _change(node: ast.AST, change: int) -> None:
    """Make one of the changes of a node."""
    if isinstance(node, ast.AugAssign) and change == changes(node) - 1:
        node.op, node.value = ast.Add(), ast.Constant(0)  # has no effect, as if the statement were missing
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        node.op = ARITHMETIC[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])][change]()
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.Expr):
        node.value = ast.Constant(None)
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else node.op
        if isinstance(node.op, ast.Not):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _without_effect(tree: ast.Module) -> set[int]:
    """Return the ids of nodes that do not affect results: annotations, message texts, raised errors, cache sizes."""
    roots: list[ast.AST] = []
    for node in ast.walk(tree):
        roots += [part for name in ("annotation", "returns") if (part := getattr(node, name, None)) is not None]
        if isinstance(node, (ast.JoinedStr, ast.Raise)):
            roots.append(node)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("zip", "dataclass", "lru_cache", "TypeVar"):
            roots += node.keywords  # strict=True
            roots += node.args if getattr(node.func, "id", "") == "lru_cache" else []  # the size of a cache
    return {id(inner) for root in roots for inner in ast.walk(root)}


def _files(name: str) -> list[Path]:
    place = ROOT / name
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def _module(path: Path) -> str:
    """Return the name of the module of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[2:] if parts[0] == "plugins" else parts if parts[0] == "costcore" else ("costcore", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def mutants_of(area: str) -> list[Mutant]:
    """Return every mutant of an area."""
    found = []
    for name in AREAS[area][0]:
        for path in _files(name):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            alone = _without_effect(tree)
            for number, node in enumerate(ast.walk(tree)):
                if id(node) not in alone:
                    found += [Mutant(area, path, number, change) for change in range(changes(node))]
    return found


def sample(areas: Sequence[str], n: int, seed: int) -> Iterator[tuple[int, Mutant]]:
    """Yield ``n`` mutants with their numbers, of each area in turn."""
    random = Random(seed)
    left = {area: mutants_of(area) for area in areas}
    for each in left.values():
        random.shuffle(each)
    for number in range(n):
        area = areas[number % len(areas)]
        if left[area]:
            yield number, left[area].pop()


class _Loader(SourceFileLoader):
    """Loads the module of a changed file."""

    tree: ast.Module

    def get_code(self, fullname: str) -> CodeType:
        return compile(copy.deepcopy(self.tree), self.path, "exec")


class _Finder(MetaPathFinder):
    """Finds the module of a changed file, before all others."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = _module(mutant.path)
        self._mutant = mutant

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Loader(fullname, str(self._mutant.path))
        loader.tree = self._mutant.tree()
        is_package = self._mutant.path.name == "__init__.py"
        folders = [str(self._mutant.path.parent)] if is_package else None
        return spec_from_file_location(fullname, self._mutant.path, loader=loader, submodule_search_locations=folders)


class Recorder:
    """A pytest plug-in that records which lines in functions of some files each test runs.

    Lines that run during collection or set-up of a test file count for all of its tests.

    Attributes:
        seconds: the time of every passed test, including its set-up.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        from coverage import Coverage

        self.seconds: dict[str, float] = defaultdict(float)
        self._bodies = {str(file): _body_lines(file) for file in files}
        self._failed: set[str] = set()
        self._coverage = Coverage(include=[*self._bodies], data_file=None, config_file=False)
        self._coverage.start()

    def pytest_collectstart(self, collector: Any) -> None:
        self._coverage.switch_context(collector.nodeid.split("::")[0])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid.split("::")[0])

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> None:
        self._coverage.switch_context(pyfuncitem.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        for name in self._failed:
            self.seconds.pop(name, None)

    def lines(self) -> dict[str, dict[str, list[int]]]:
        """Return the executed lines by test (by test file for collection and set-up) and source file."""
        data, found = self._coverage.get_data(), defaultdict[str, dict[str, list[int]]](dict)
        for file in sorted(data.measured_files()):
            for line, names in sorted(data.contexts_by_lineno(file).items()):
                if line in self._bodies[file]:
                    for name in names:
                        found[name].setdefault(str(Path(file).relative_to(ROOT)), []).append(line)
        return found


def _body_lines(path: Path) -> set[int]:
    """Return the lines of a file that are in the body of a function."""
    functions = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, _FUNCTION)]
    return {line for node in functions for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)}


class Record(NamedTuple):
    """The content of a file of :data:`RECORDS`: seconds by test, and lines by test or test file."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[int]]]

    @classmethod
    def read(cls, area: str) -> Record:
        return cls(**json.loads((RECORDS / f"{area}.json").read_text(encoding="utf-8")))

    def tests(self, mutant: Mutant, most_seconds: float) -> list[str]:
        """Return the tests that run a mutant, or its file if it is outside of functions; fast files first.

        If the mutant runs at import, all other tests follow, because it may affect any of them.
        """
        file, first, last = mutant.place()
        lines = range(first, last + 1) if first else range(1, 1 << 20)
        running = {name for name, files in self.lines.items() if any(line in lines for line in files.get(file, ()))}
        chosen = {name for name in self.seconds if not running.isdisjoint((name, name.split("::")[0]))}
        is_imported = not chosen or not first or any("::" not in name for name in running)
        least: dict[str, float] = {}
        for name in self.seconds if is_imported else chosen:
            least[name.split("::")[0]] = min(least.get(name.split("::")[0], 1e9), self.seconds[name])
        tests, left = [], most_seconds
        for name in sorted(
            self.seconds if is_imported else chosen,
            key=lambda name: (name not in chosen, least[name.split("::")[0]], name.split("::")[0], self.seconds[name]),
        ):
            if self.seconds[name] <= left:
                tests.append(name)
                left -= self.seconds[name]
        return tests


def record(area: str) -> None:
    """Write the record of an area."""
    files = [path for name in AREAS[area][0] for path in _files(name)]
    tests = [name if name.startswith("plugins") else f"tests/{name}" for name in AREAS[area][1]]
    if os.fork() == 0:
        import pytest

        recorder = Recorder(files)
        examples = [f"tests/test_doctests.py::test_examples_print_their_output[{_module(file)}]" for file in files]
        if area in ("graphs", *READERS):  # their environments have no PyTorch
            examples = []
        pytest.main([*OPTIONS, *examples, *tests], plugins=[recorder])
        if not recorder.seconds:  # every mutant would count as noticed
            os._exit(1)
        RECORDS.mkdir(parents=True, exist_ok=True)
        found = {"seconds": recorder.seconds, "lines": recorder.lines()}
        (RECORDS / f"{area}.json").write_text(json.dumps(found), encoding="utf-8")
        os._exit(0)
    if os.wait()[1]:
        raise ValueError(f"no test of {area} passes")


OPTIONS = ["-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={ROOT}"]
"""Options of pytest; its hook for assertions would load changed files itself."""


def install(text: str) -> None:
    """Have this process import the mutant of :data:`VARIABLE`."""
    area, path, node, change = text.split(":")
    sys.meta_path.insert(0, _Finder(Mutant(area, ROOT / path, int(node), int(change))))


_SITE = """
import os
from importlib.util import module_from_spec, spec_from_file_location

if text := os.environ.get("COSTCORE_MUTANT"):
    import sys

    spec = spec_from_file_location("costcore_mutants", {path!r})
    sys.modules["costcore_mutants"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.install(text)
"""


def run(tests: Sequence[str], mutant: Mutant, seconds: float) -> tuple[str, str]:
    """Run tests in a forked process; return ``passed``, ``failed`` or ``late``, and the test that failed."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        (Path(folder) / "sitecustomize.py").write_text(_SITE.format(path=__file__), encoding="utf-8")
        output = Path(folder) / "output.txt"
        process = os.fork()
        if process == 0:
            os.setsid()
            log = os.open(output, os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            text = ":".join([mutant.area, str(mutant.path.relative_to(ROOT)), str(mutant.node), str(mutant.change)])
            os.environ[VARIABLE] = text
            os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
            install(text)
            import pytest

            os._exit(int(pytest.main(["-x", *OPTIONS, *tests])))
        last = time.monotonic() + seconds
        while time.monotonic() < last:
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                text = output.read_text(errors="replace") if output.exists() else ""  # a fork of a fork may remove it
                if missing := re.findall(r"^ERROR: (?:file or directory )?not found: ([^\[\s]+)", text, re.MULTILINE):
                    functions = [str((ROOT / name).relative_to(ROOT)) for name in missing]
                    if not any(test.partition("[")[0] in functions for test in tests if "[" in test):
                        raise ValueError(f"{functions[0]} is not found: --record {mutant.area} again")
                    # The mutant changes the name of a parametrized case: run all cases of its function.
                    bare = ((test, test.partition("[")[0]) for test in tests)
                    return run([*dict.fromkeys(f if f in functions else test for test, f in bare)], mutant, seconds)
                failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
                return "passed" if status == 0 else "failed", failed[0] if failed else f"status {status}"
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        return "late", ""


def main(arguments: list[str] | None = None) -> int:
    """Print the survivors and how many mutants were noticed; return 1 if one survived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("areas", nargs="*", choices=[*AREAS, []], help="default: all")
    parser.add_argument("--record", action="store_true", help="write which tests run which lines, and do nothing else")
    parser.add_argument("--n", type=int, default=20, help="mutants to run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first mutant")
    parser.add_argument("--step", type=int, default=1, help="run every STEPth mutant from the first")
    parser.add_argument("--only", type=int, nargs="*", help="run the mutants of these numbers")
    parser.add_argument("--seconds", type=float, default=60, help="the maximum seconds for the tests of a mutant")
    parser.add_argument("--until", type=float, default=float("inf"), help="the maximum seconds for all mutants")
    args = parser.parse_args(arguments)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for name in ("numpy", "sympy", "torch", "onnx", "pandas", "_pytest.assertion.rewrite"):
        with contextlib.suppress(ImportError):
            __import__(name)
    areas = args.areas or [*AREAS]
    if args.record:
        for area in areas:
            record(area)
        return 0
    records = {area: Record.read(area) for area in areas}
    last, counts = time.monotonic() + args.until, {"failed": 0, "late": 0, "passed": 0}
    numbers = args.only or range(args.first, args.first + args.n, args.step)
    for number, mutant in sample(areas, max(numbers) + 1, args.seed):
        if number not in numbers:
            continue
        if time.monotonic() > last:
            print(f"stopped before mutant {number}")
            break
        start = time.monotonic()
        tests = records[mutant.area].tests(mutant, args.seconds)
        outcome, by = run(tests, mutant, 30 + 3 * args.seconds)
        counts[outcome] += 1
        text = f"by {by}" if outcome == "failed" else mutant.difference()
        print(
            f"{number} {outcome} {time.monotonic() - start:.1f} s, {len(tests)} tests, {mutant.area} {text}", flush=True
        )
    outcomes = f"{counts['failed']} noticed, {counts['late']} late, {counts['passed']} survived"
    print(f"{sum(counts.values())} mutants: {outcomes}")
    return int(counts["passed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
