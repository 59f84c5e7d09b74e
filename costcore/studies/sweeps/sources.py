"""Hashes of source code: of a module, and of every module of the user that it imports."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from costcore.errors import FileError
from costcore.files import open_file, read_file, unreadable

INSTALLED = ("site-packages", "dist-packages", f"python{sys.version_info.major}.{sys.version_info.minor}")
"""Names of folders with installed packages or with the standard library."""

MOST_HASHED = 2**32
"""The most bytes of a file that counts by its content: a model in one file of Protocol Buffers has half as many."""


class Sources:
    """Hashes of files and modules, of one moment: every file is read once.

    Imports are followed by reading the code, which is not run. A module of the user counts by its source, an installed
    package by its version. Imports by a computed name, and files that code reads, are not followed.

    Args:
        folders: the folders that are searched for modules before those of ``sys.path``.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        own = [folder for folder in sys.path if not any(name in Path(folder).parts for name in INSTALLED)]
        self._folders = [*dict.fromkeys(Path(folder).resolve() for folder in (*folders, *own) if Path(folder).is_dir())]
        self._contents: dict[Path, str] = {}
        self._parts: dict[Path, tuple[set[str], set[str]]] = {}
        self._modules: dict[str, str] = {}
        self._sources: dict[Path, str] = {}

    def of_file(self, path: Path) -> str:
        """Return the hash of the content of a file.

        Raises:
            OSError: if it cannot be read, or has more than :data:`MOST_HASHED` bytes.
        """
        path = _resolved(path)
        if path not in self._contents:
            digest, left = hashlib.sha256(), MOST_HASHED
            with open_file(path) as file:
                is_too_large = os.fstat(file.fileno()).st_size > left
                while not is_too_large and (block := file.read(1 << 20)):
                    digest.update(block)
                    left -= len(block)
                    is_too_large = left < 0  # a pipe, which has no size
            if is_too_large:
                raise FileError(f"{path} cannot be recognized: it has more than {MOST_HASHED:,} bytes")
            self._contents[path] = digest.hexdigest()
        return self._contents[path]

    def of_module(self, module: str) -> str:
        """Return the hash of a module, given by its name or as ``file.py``, and of what it imports.

        Raises:
            OSError: if it is a file that cannot be read.
        """
        if module not in self._modules:
            files = [Path(module)] if module.endswith(".py") else self._files(module, self._folders)
            self._modules[module] = "".join(map(self.of_source, files)) or _installed(module)
        return self._modules[module]

    def of_source(self, path: Path) -> str:
        """Return the hash of a source file and of what it imports.

        Raises:
            OSError: if it cannot be read.
        """
        if path not in self._sources:
            hashes, packages = self._followed(_resolved(path))
            parts = [*sorted(hashes), *sorted(map(_installed, packages))]
            self._sources[path] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return self._sources[path]

    def packages(self, module: str) -> set[str]:
        """Return the installed packages that a module imports or, if it is installed itself, that it requires.

        Raises:
            OSError: if it is a file that cannot be read.
        """
        files = [Path(module)] if module.endswith(".py") else self._files(module, self._folders)
        if files:
            return set().union(*(self._followed(_resolved(file))[1] for file in files))
        package = module.partition(".")[0]
        return {package, *(_REQUIRED.split(text)[0] for text in _requirements(package))}

    def _followed(self, path: Path) -> tuple[set[str], set[str]]:
        """Return the hashes of a source file and of the files that it imports, and the packages that these import."""
        if path in self._parts:
            return self._parts[path]
        hashes, packages, seen, files = set(), set(), {path}, [path]
        while files:
            file = files.pop()
            hashes.add(self.of_file(file))
            for module, folders in _imports(file):
                found = set(self._files(module, folders or self._folders))
                if not found:
                    packages.add(module.partition(".")[0])
                files += found - seen
                seen |= found
        self._parts[path] = hashes, packages
        return hashes, packages

    def _files(self, module: str, folders: Sequence[Path]) -> list[Path]:
        """Return the source files of a module and of its packages, in the first of the folders that has them."""
        names = module.split(".")
        if names[0] == "costcore":
            return []
        for folder in folders:
            bases = [folder.joinpath(*names[:end]) for end in range(1, len(names) + 1)]
            files = [file for base in bases for file in (base.with_suffix(".py"), base / "__init__.py")]
            if found := [file.resolve() for file in files if file.is_file()]:
                return found
        return []


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError) as error:  # a NUL in its name
        raise unreadable(path, error) from error


_REQUIRED = re.compile(r"[^\w.-]")


def _requirements(package: str) -> list[str]:
    try:
        return requires(package) or []
    except PackageNotFoundError:
        return []


def _imports(file: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield the modules that a source file imports, each with the folders to search; none means those of the path."""
    try:
        tree = ast.parse(read_file(file))
    except (SyntaxError, ValueError, RecursionError):  # its row has the error
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            folders = [file.parents[node.level - 1]] if 0 < node.level <= len(file.parents) else []
            module = f"{node.module}." if node.module else ""
            yield from ((f"{module}{alias.name}", folders) for alias in node.names)


def _installed(module: str) -> str:
    """Return an installed package with its version."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names:
        return ""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package
