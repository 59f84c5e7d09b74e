"""Recognizes folders of models of transformers by their files."""

from __future__ import annotations

from pathlib import Path

from costcore.files import is_file


def is_model_folder(path: str) -> bool:
    """Return whether a folder has a configuration of transformers and weights in safetensors files."""
    folder = Path(path)
    return is_file(folder / "config.json") and any(folder.glob("*.safetensors"))
