"""Networks of the toy framework, with what they cost worked out by hand.

On a (2, 3) input a Double is 6 mul, reads 24 B and writes 24 B; a Dense is 18 fma (6 outputs, 3 products each), reads
24 + 36 B (its 3 x 3 weight) and writes 24 B.
"""

from __future__ import annotations

from typing import Any

from costcore import Report, estimate
from costcore.trace.call import Module


def nested(toy: Any) -> Any:
    """A frozen head, a module under two paths, one that is never called, parameters held by a container."""
    return toy.Network(
        {
            "": Module("Net"),
            "body": Module("Sequential", (-3,), (), 4),
            "body.0": Module("Dense", (-1,)),
            "body.1": Module("Double"),
            "head": Module("Dense", (-2,), (-2,)),
            "tied": Module("Dense", (-1,), same_as="body.0"),
            "unused": Module("Dense", (-9,), buffers=2),
        },
        [
            ("toy::Dense", "body.0", 1),
            ("toy::Double", "body.1", None),
            ("toy::Double", "body", None),
            ("toy::Dense", "head", 2),
            ("toy::Dense", "tied", 1),
            ("toy::Double", "", None),
        ],
        {-1: 9, -2: 9, -3: 5, -9: 7},
    )


def nested_report(toy: Any) -> Report:
    return estimate(nested(toy), (2, 3))


def chain(toy: Any, depth: int) -> Any:
    """Modules nested ``depth`` deep, each with one Double, a parameter of its own and one buffer element."""
    paths = [".".join("m" * i) for i in range(depth + 1)]
    modules = {path: Module("M", (-i,), (), 1) for i, path in enumerate(paths, 1)}
    return toy.Network(modules, [("toy::Double", path, None) for path in paths], {-i: 9 for i in range(1, depth + 2)})
