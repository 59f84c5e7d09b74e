"""Write a portable artifact, or other MLIR bytecode, as text: ``python -m costcore_stablehlo.to_text FILE``.

The reader of MLIR's bytecode can end the process that reads a damaged file, so :mod:`costcore_stablehlo.model` runs it
in one of its own. It imports no more than jaxlib.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

PRODUCER = b"StableHLO_v"
"""What a portable artifact states near its beginning; TensorFlow writes bytecode of the dialects themselves."""

SECONDS = 4
BYTES_PER_SECOND = 5_000_000
"""How much processor time a file may take: more if it is large."""

MEMORY = 2**30
TIMES = 16
"""How much memory a file may take."""


def limit(kind: int, most: int) -> None:
    """Limit what this process may use from now on, if its own limit is not lower."""
    lower, upper = resource.getrlimit(kind)
    if lower == resource.RLIM_INFINITY or lower > most:
        resource.setrlimit(kind, (most if upper == resource.RLIM_INFINITY else min(most, upper), upper))


def main(path: str) -> int:
    """Print the program in a file; return 1 if it has none, with what is wrong on standard error."""
    data = Path(path).read_bytes()
    limit(resource.RLIMIT_CPU, SECONDS + len(data) // BYTES_PER_SECOND)
    limit(resource.RLIMIT_AS, MEMORY + TIMES * len(data))
    with ir.Context() as context, ir.Location.unknown():
        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)  # those around operators: func and others
        context.append_dialect_registry(registry)
        for dialect in (stablehlo, chlo, sdy):
            dialect.register_dialect(context)
        mhlo.register_mhlo_dialect(context)  # TensorFlow's `mhlo.copy`
        try:
            module = (
                stablehlo.deserialize_portable_artifact(context, data)
                if PRODUCER in data[:32]
                else ir.Module.parse(data)
            )
        except (ir.MLIRError, ValueError) as error:
            print(error, file=sys.stderr)
            return 1
        module.operation.print(file=sys.stdout, enable_debug_info=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
