"""Change one operator, number or statement of the code at a time, and run its tests: python tools/mutants.py --n 20.

A change that no test notices, a survivor, is printed with its difference. It is either equivalent, so that nothing
could notice it, or a test is missing. The sample is seeded: ``--only NUMBER`` repeats one mutant.

Each mutant runs in a process of its own, forked from one that has imported the frameworks, with the tests of its area
in the order of :data:`AREAS`, until the first that fails. A process that does not end in time is ended, and counts as
noticed. What tests start as another program runs the code as it is.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from random import Random
from types import CodeType, ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]

ANALYSES, STUDIES, PYTORCH = "core/analyses", "core/studies", "frontends/pytorch"

AREAS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "memory": (
        ("costcore/analyses/memory",),
        (f"{ANALYSES}/memory", "core/tables/test_memory_table.py", f"{PYTORCH}/memory/test_cases.py"),
    ),
    "fusion": (("costcore/analyses/fusion",), (f"{ANALYSES}/fusion",)),
    "timing": (("costcore/analyses/timing",), (f"{ANALYSES}/timing",)),
    "sizes": (("costcore/analyses/sizes",), (f"{ANALYSES}/sizes", f"{PYTORCH}/sizes/test_networks.py")),
    "serving": (("costcore/studies/serving",), (f"{STUDIES}/serving", f"{PYTORCH}/serving/test_serving_report.py")),
    "training": (("costcore/studies/training",), (f"{STUDIES}/training", f"{PYTORCH}/test_training.py")),
    "conventions": (("costcore/analyses/conventions",), (f"{ANALYSES}/conventions", f"{PYTORCH}/conventions")),
    "receptive_field": (
        ("costcore/analyses/receptive_field",),
        (f"{ANALYSES}/receptive_field", f"{PYTORCH}/test_receptive_field.py"),
    ),
    "collectives": (
        ("frontends/pytorch/parallel/meta_collectives.py", "frontends/pytorch/rows/distributed.py"),
        (f"{PYTORCH}/parallel/test_meta_collectives.py", f"{PYTORCH}/parallel/test_collectives.py"),
    ),
    "sweeps": (("costcore/studies/sweeps",), (f"{STUDIES}/sweeps",)),
}
"""The code and the tests of every area, the fastest tests first."""

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


class Mutant(NamedTuple):
    """A changed file: the node of its tree that is changed, by its position in a walk, and which of its changes."""

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

    def difference(self) -> str:
        """Return the lines that differ, with the line of the change."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        line = getattr([*ast.walk(tree)][self.node], "lineno", 0)
        both = (ast.unparse(each).splitlines() for each in (tree, self.tree()))
        changed = [text for text in unified_diff(*both, n=0, lineterm="") if text[:2] not in ("--", "++", "@@")]
        return "\n".join([f"{self.path.relative_to(ROOT)}:{line}", *(f"    {text}" for text in changed)])


def changes(node: ast.AST) -> int:
    """Return how many changes there are of a node."""
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
        node.op, node.value = ast.Add(), ast.Constant(0)  # as if the statement were not there
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


def _left_alone(tree: ast.Module) -> set[int]:
    """Return the ids of nodes that decide no figure: annotations, texts of messages, what is raised, and imports."""
    roots: list[ast.AST] = []
    for node in ast.walk(tree):
        roots += [part for name in ("annotation", "returns") if (part := getattr(node, name, None)) is not None]
        if isinstance(node, (ast.JoinedStr, ast.Raise)):
            roots.append(node)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("zip", "dataclass", "lru_cache", "TypeVar"):
            roots += node.keywords  # strict=True
    return {id(inner) for root in roots for inner in ast.walk(root)}


def mutants_of(area: str) -> list[Mutant]:
    """Return every mutant of an area."""
    found = []
    for name in AREAS[area][0]:
        place = ROOT / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            alone = _left_alone(tree)
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
        parts = mutant.path.relative_to(ROOT).with_suffix("").parts
        parts = parts if parts[0] == "costcore" else ("costcore", *parts)
        self._name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self._mutant = mutant

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Loader(fullname, str(self._mutant.path))
        loader.tree = self._mutant.tree()
        is_package = self._mutant.path.name == "__init__.py"
        folders = [str(self._mutant.path.parent)] if is_package else None
        return spec_from_file_location(fullname, self._mutant.path, loader=loader, submodule_search_locations=folders)


def run(tests: Sequence[str], mutant: Mutant | None, seconds: float) -> str:
    """Run tests in a forked process; return ``passed``, ``failed`` or ``late``."""
    process = os.fork()
    if process == 0:
        os.setsid()
        log = os.open(os.devnull, os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(mutant))
        import pytest

        options = [
            "-qx",
            "--assert=plain",
            "-p",
            "no:cacheprovider",
        ]  # the hook of assertions would load the file itself
        os._exit(int(pytest.main([*options, *(f"tests/{test}" for test in tests)])))
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return "passed" if status == 0 else "failed"
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return "late"


def main(arguments: list[str] | None = None) -> int:
    """Print the survivors and how many mutants were noticed; return 1 if one survived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("areas", nargs="*", choices=[*AREAS, []], help="default: all")
    parser.add_argument("--n", type=int, default=20, help="mutants to run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first mutant")
    parser.add_argument("--only", type=int, help="run the mutant of this number")
    parser.add_argument("--fast", action="store_true", help="only the first, fastest tests of each area")
    parser.add_argument("--seconds", type=float, default=60, help="the most seconds of a mutant")
    parser.add_argument("--until", type=float, default=float("inf"), help="the most seconds of all")
    args = parser.parse_args(arguments)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for name in ("numpy", "sympy", "torch", "onnx", "_pytest.assertion.rewrite"):
        with contextlib.suppress(ImportError):
            __import__(name)
    areas = args.areas or [*AREAS]
    last, counts, survivors = time.monotonic() + args.until, {"failed": 0, "late": 0, "passed": 0}, 0
    n = args.first + args.n if args.only is None else args.only + 1
    for number, mutant in sample(areas, n, args.seed):
        if number < (args.first if args.only is None else args.only):
            continue
        if time.monotonic() > last:
            print(f"stopped before mutant {number}")
            break
        tests = AREAS[mutant.area][1]
        outcome = run(tests[:1] if args.fast else tests, mutant, args.seconds)
        counts[outcome] += 1
        if outcome != "failed":
            survivors += outcome == "passed"
            print(f"{number} {outcome} {mutant.area} {mutant.difference()}", flush=True)
    outcomes = f"{counts['failed']} noticed, {counts['late']} late, {counts['passed']} survived"
    print(f"{sum(counts.values())} mutants: {outcomes}")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
