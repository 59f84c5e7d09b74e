"""The memory of a run: which blocks were alive when, and what its peak consists of."""

from costcore.analyses.analysis import Analysis, View

POLICIES = ("cuda",)
"""The allocators with known rules."""

MEMORY = Analysis(
    "memory",
    "peak memory, and the tensors alive at the peak",
    f"{__name__}.live_memory:memory_of",
    needs={"memory": True},
    quantities=f"{__name__}.quantities:QUANTITIES",
    section=f"{__name__}.live_memory:memory_section",
    pictures={"memory": f"{__name__}.live_memory:memory"},
    view=View(
        "peak memory, and the tensors alive at the peak (PyTorch); with --train, of a training step",
        f"{__name__}.live_memory:alive_at_peak",
        "costcore.tables.columns:BLOCKS",
        "costcore.tables.columns:MemoryColumns",
        beside=("live_peak", "live", "saved"),
        order="whose largest blocks come first",
        top=15,
        arguments={"--allocator": {"choices": POLICIES, "help": "also print the memory that this allocator reserves"}},
        without_flops=True,
    ),
)

ARENA = Analysis(
    "arena",
    "the static memory plan of an inference",
    f"{__name__}.arena:arena_of",
    section=f"{__name__}.live_memory:arena_section",
    pictures={"arena": f"{__name__}.arena:arena_drawn"},
    view=View(
        "static memory plan of an inference: one row per value, peak SRAM and flash",
        f"{__name__}.live_memory:values_in_arena",
        f"{__name__}.arena:ARENA",
        f"{__name__}.arena:ArenaColumns",
        rows="its rows are values in memory, which are not parts of the run; ask for --columns arena",
        top=20,
        arguments={
            "--inplace": {"action": "store_true", "help": "let element-wise results overwrite their operands"},
            "--align": {"type": int, "metavar": "N", "help": "alignment of values in bytes; default: 64"},
        },
        without_flops=True,
        is_of_original=True,
    ),
)

ANALYSES = (MEMORY, ARENA)
