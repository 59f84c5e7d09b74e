"""Python child processes that import nothing from the current folder: it may hold files of other people."""

# Import nothing else: `python -m costcore` would find it in the current folder first, until isolated_path() is set.
import os
import sys

_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
"""The folder that this package is imported from."""


def python_command(code: str, *arguments: str, keep_environment: bool = False) -> list[str]:
    """Return a command that runs Python code with the search path of this process, without the current folder.

    Args:
        code: the code. The search path is set before its first import.
        arguments: the arguments of the code.
        keep_environment: whether the child keeps the ``PYTHON…`` variables. Code of the user may need them; the reader
            of a file does not.
    """
    flags = ["-B"] if sys.dont_write_bytecode else []
    if not keep_environment:
        flags += ["-I", "-X", "utf8"]  # -I ignores PYTHONUTF8 too
    return [sys.executable, *flags, "-c", f"import sys; sys.path[:] = {isolated_path()!r}\n{code}", *arguments]


def isolated_path() -> list[str]:
    """Return the module search path without the current folder.

    If costcore itself is imported from the current folder, as in a checkout that is not installed, the folder comes
    last: nothing in it replaces a module of Python or of an installed package.
    """
    path = [folder for folder in sys.path if isinstance(folder, str) and not is_current(folder)]
    return [*path, _PACKAGE_FOLDER] if is_current(_PACKAGE_FOLDER) else path


def is_current(folder: str) -> bool:
    """Return whether an entry of the module search path is the current folder."""
    try:
        return not folder or os.path.samefile(folder, os.curdir)  # noqa: PTH121
    except (OSError, ValueError):  # one of them does not exist
        return False
