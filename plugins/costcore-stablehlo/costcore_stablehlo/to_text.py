"""Write a portable artifact, or other MLIR bytecode, as text: ``python -I to_text.py FILE``.

MLIR's bytecode reader can crash on a damaged file, so :mod:`costcore_stablehlo.model` runs this script in a subprocess.
It only imports jaxlib.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

PRODUCER = b"StableHLO_v"
"""The producer in the header of every portable artifact. TensorFlow writes plain bytecode instead."""

SECONDS = 4
BYTES_PER_SECOND = 5_000_000
"""The CPU time limit, which grows with the file."""

MEMORY = 2**30
TIMES = 16
"""The memory limit, which grows with the file."""

LONGEST, CHARACTERS_PER_BYTE = 2**26, 64
"""The maximum characters of the text, which repeats types that the file stores once."""


def limit(name: str, most: int) -> None:
    """Lower a resource limit of this process, if the system has resource limits."""
    with suppress(ImportError):
        import resource

        kind = getattr(resource, name)
        lower, upper = resource.getrlimit(kind)
        if lower == resource.RLIM_INFINITY or lower > most:
            resource.setrlimit(kind, (most if upper == resource.RLIM_INFINITY else min(most, upper), upper))


def main(path: str) -> int:
    """Print the program of a file; on failure, print the error to stderr and return 1."""
    data = Path(path).read_bytes()
    limit("RLIMIT_CPU", SECONDS + len(data) // BYTES_PER_SECOND)
    limit("RLIMIT_AS", MEMORY + TIMES * len(data))
    with ir.Context() as context, ir.Location.unknown():
        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)  # func and other basic dialects
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
        text = module.operation.get_asm(binary=True, enable_debug_info=True)
    if len(text) > (most := LONGEST + CHARACTERS_PER_BYTE * len(data)):
        print(f"error: it expands to more than {most:,} characters", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
