"""Print the notes of a release from CHANGELOG.md: python tools/release_notes.py [VERSION].

Without a version, those of the version of this checkout. Lines that CHANGELOG.md wraps are joined, because pages of
releases keep line breaks.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this checkout is released, whatever is installed

from costcore import __version__  # noqa: E402 - found by the line above


def release_notes(changelog: str, version: str) -> str:
    """Return the section of a version, without its heading.

    Raises:
        ValueError: if the changelog has no such section; lists those that it has.
    """
    parts = re.split(r"^## (\S+).*\n", changelog, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if version not in sections:
        raise ValueError(f"CHANGELOG.md has no section {version} (expected one of {', '.join(sections)})")
    return re.sub(r"(?<=\S)\n +(?=\S)(?![*-] )", " ", sections[version].strip()) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Print the notes; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("version", nargs="?", default=__version__, help="default: the version of this checkout")
    try:
        notes = release_notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), parser.parse_args(arguments).version)
    except ValueError as error:
        sys.exit(str(error))
    sys.stdout.write(notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
