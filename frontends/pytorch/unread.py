"""A note on parameters of a model that no call of its pass reads, such as those of a head for training only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from costcore.trace.recorder import Recorder


def unread_parameters(recorder: Recorder) -> Iterator[str]:
    """Yield a note on parameters of the model that no call reads, with the outermost modules that have no others."""
    read = {each for call in recorder.calls for each in call.parameters}
    modules = recorder.modules.items()
    in_use = {each for path, module in modules if not read.isdisjoint(module.parameters) for each in _outermost(path)}
    unread = {path: [each for each in module.parameters if each not in read] for path, module in modules}
    names = [next((each for each in _outermost(path) if each not in in_use), path) for path in unread if unread[path]]
    total = sum(recorder.parameters[each] for found in unread.values() for each in found)
    if names and read:
        shown = [path or "the model itself" for path in dict.fromkeys(names)]
        text = ", ".join(shown[:3]) + ", …" * (len(shown) > 3)
        yield f"no call reads {total:,} of the {recorder.n_params_model:,} parameters: {text}"


def _outermost(path: str) -> Iterator[str]:
    """Return the paths of the modules around one and its own, from the outside in."""
    return accumulate(path.split("."), lambda around, name: f"{around}.{name}")
