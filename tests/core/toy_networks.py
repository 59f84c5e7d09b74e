"""Networks of the toy framework.

Costs computed by hand for an input of shape (2, 3): a Double is 6 mul, reads 24 B and writes 24 B. A Dense is 18 fma (6
outputs, 3 products each), reads 24 + 36 B (its 3 x 3 weight) and writes 24 B.
"""

from __future__ import annotations

from typing import Any

from costcore import Report, estimate
from tests.core.traces import Module


def nested(toy: Any) -> Any:
    """A network with a frozen head, a module with two paths, an unused module, and a container with parameters."""
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
    """A network of nested modules, each with one Double, one parameter and a buffer of one element."""
    paths = [".".join("m" * i) for i in range(depth + 1)]
    modules = {path: Module("M", (-i,), (), 1) for i, path in enumerate(paths, 1)}
    return toy.Network(modules, [("toy::Double", path, None) for path in paths], {-i: 9 for i in range(1, depth + 2)})
