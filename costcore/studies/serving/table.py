"""The table of a model that is served: prefill and decode on devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from costcore.analyses.devices.device import Device
from costcore.studies.serving.phase import Phase
from costcore.studies.serving.report import ServingReport
from costcore.tables.table import Table
from costcore.text.table import Column
from costcore.text.values import Shown


class Row(NamedTuple):
    """A pass on a device.

    Attributes:
        device: name of the device.
        phase: ``prefill`` or ``decode``, of latent attention with how it is computed.
        batch: number of sequences.
        macs_per_token: MACs per new token.
        weight_bytes: bytes of weights that are read.
        kv_bytes: bytes of the cache that are read, those of the new tokens included.
        intensity: FLOPs of products per byte of weights and cache.
        binds: ``compute`` or ``memory``.
        bound_seconds: the least time of the pass; with experts of the mean pass.
        least_seconds: the least time of every pass, also if all tokens choose the same experts.
        tokens_per_second: new tokens per second, at most; None if the sequences do not fit the device.
        sequences: how many sequences of this context fit; None if the memory of the device is unknown.
        price_per_million: the price of a million new tokens at least; None without a price of the device.
    """

    device: str
    phase: str
    batch: int
    macs_per_token: float
    weight_bytes: int
    kv_bytes: int
    intensity: float
    binds: str
    bound_seconds: float
    least_seconds: float
    tokens_per_second: float | None
    sequences: int | None
    price_per_million: float | None = None


def serving_rows(
    serving: ServingReport,
    devices: Sequence[Device],
    batches: Sequence[int],
    context: int,
    *,
    share: float = 0.9,
    memory: int | str | None = None,
    last_only: bool = False,
    price: float | None = None,
) -> list[Row]:
    """Return a prefill of one prompt and decode steps of every batch, on every device.

    Args:
        serving: the model.
        devices: the devices.
        batches: numbers of sequences of a decode step.
        context: tokens of a prompt, and of every sequence that is decoded.
        share: the part of the memory of a device that weights and caches may take.
        memory: memory in place of that of the devices.
        last_only: whether a prefill computes scores for the last token alone.
        price: the price of a device for an hour, in any currency.

    Raises:
        CostError: if the model fails, or the bandwidth of a device is unknown.
        TypeError, ValueError: if an argument is invalid.
    """
    phases = list(_phases(serving, batches, context, last_only))
    rows = [
        _row(device, name, phase, _fitting(serving, device, name, context, share, memory))
        for device in devices
        for name, phase in phases
    ]
    if price is None:
        return rows
    return [
        row._replace(price_per_million=1e6 * price / (3600 * row.tokens_per_second)) if row.tokens_per_second else row
        for row in rows
    ]


def _phases(
    serving: ServingReport, batches: Sequence[int], context: int, last_only: bool
) -> Iterator[tuple[str, Phase]]:
    yield "prefill", serving.prefill(context, last_only=last_only)
    ways = ("expanded", "absorbed") if serving.latents else ("",)
    for way in ways:
        for batch in batches:
            step = serving.decode(batch=batch, context=context, latent=way or "expanded")
            yield f"decode, {way}" if way else "decode", step


def _fitting(
    serving: ServingReport, device: Device, phase: str, context: int, share: float, memory: int | str | None
) -> int | None:
    if memory is None and device.memory.dram_gb is None:
        return None
    latent = "expanded" if phase.endswith("expanded") else "absorbed"
    return serving.max_sequences(device, context=context, share=share, memory=memory, latent=latent)


def _row(device: Device, name: str, phase: Phase, sequences: int | None) -> Row:
    time = phase.time(device)
    return Row(
        device=device.name,
        phase=name,
        batch=phase.batch,
        macs_per_token=phase.macs / phase.new_tokens,
        weight_bytes=phase.load_weight,
        kv_bytes=phase.load_kv,
        intensity=phase.intensity,
        binds=time.binds,
        bound_seconds=time.bound_seconds,
        least_seconds=time.least_seconds,
        tokens_per_second=time.tokens_per_second if sequences is None or phase.batch <= sequences else None,
        sequences=sequences,
    )


COLUMNS = (
    *(Column("device", "Device"), Column("phase", "Phase"), Column("batch", "Batch", "count")),
    *(Column("macs_per_token", "MACs/token", "ratio", unit="G"), Column("weight_bytes", "Weights", "ratio", unit="GB")),
    *(Column("kv_bytes", "KV", "ratio", unit="GB"), Column("intensity", "Intensity", "ratio", unit="FLOP/B")),
    *(Column("binds", "Bound by"), Column("bound_seconds", "Bound", "ratio", "bound", unit="ms")),
    Column("tokens_per_second", "At most", "ratio", "bound", unit="tokens/s"),
    Column("price_per_million", "Price of 1M tokens", "ratio", "bound"),
    Column("sequences", "Sequences that fit", "count"),
)

SHOWN = {
    **dict.fromkeys(("macs_per_token", "weight_bytes", "kv_bytes"), (1e-9, 2)),
    "intensity": (1, 2),
    "bound_seconds": (1e3, 2),
    "tokens_per_second": (1, 0),
}
"""By what numbers are multiplied for people, and their digits after the decimal point."""

NO_ROOM = "no room"
"""What a table has in place of a rate that a device cannot reach."""

DROPPED_FIRST = ("intensity", "kv_bytes", "weight_bytes", "macs_per_token", "binds", "sequences")


def serving_table(rows: Sequence[Row]) -> Table:
    """Return rows as a table."""
    has_price = any(row.price_per_million is not None for row in rows)
    columns = [column for column in COLUMNS if has_price or column.key != "price_per_million"]
    return Table("Prefill and decode", columns, [*map(_cells, rows)], dropped_first=DROPPED_FIRST)


def _cells(row: Row) -> dict[str, Any]:
    values = row._asdict()
    shown = {}
    for key, (factor, digits) in SHOWN.items():
        text = NO_ROOM if values[key] is None else f"{factor * values[key]:.{digits}f}"
        shown[key] = Shown(values[key], text)
    if row.price_per_million is not None:
        shown["price_per_million"] = Shown(row.price_per_million, f"{row.price_per_million:.4f}")
    return {**values, **shown, "sequences": "" if row.sequences is None else row.sequences}


def remarks(serving: ServingReport, phases: Sequence[Phase], devices: Sequence[Device]) -> list[str]:
    """Return what the figures of a table rest on, each remark once."""
    found = [text for device in devices for phase in phases for text in phase.time(device).remarks]
    found.append(f"weights {serving.weight_bytes / 1e9:.2f} GB, cache {serving.kv_bytes_per_token} bytes per token")
    most, longest = serving.most_tokens, max(phase.context for phase in phases)
    if most is not None and longest > most:
        found.append(f"the model has positions for {most} tokens, fewer than {longest}")
    found += [*serving.notes, *(f"assumed: {each}" for each in serving.assumptions)]
    if serving.uncounted:
        found.append(f"not counted: {', '.join(serving.uncounted)}")
    return list(dict.fromkeys(found))
