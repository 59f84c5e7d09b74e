"""What the caches of sequences take, and how many fit beside the weights."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from os import PathLike

from costcore.analyses.devices.catalog import named
from costcore.analyses.devices.device import Device
from costcore.errors import CostError
from costcore.studies.serving.cached_model import CachedPart, Latent
from costcore.studies.serving.formats import Format


class Capacity:
    """What the caches of sequences take.

    Args:
        parts: what the layers of a model keep of one sequence, by kind of layer.
        latents: its attention layers that make keys and values of a latent vector.
        kv: the format of keys and values.
        block: tokens of a block, of which a sequence has whole ones.
    """

    def __init__(self, parts: Sequence[CachedPart], latents: Sequence[Latent], kv: Format, block: int) -> None:
        self._parts = parts
        self._kv = kv
        self._block = block
        self._of_latents = {True: sum(each.expanded for each in latents), False: sum(each.cached for each in latents)}

    def bytes_per_token(self, expanded: bool) -> int:
        """Return the bytes that one token adds to the cache of all layers.

        Args:
            expanded: whether keys and values that are made of latents are kept, instead of the latents.
        """
        return self._nbytes(self._per_token(expanded))

    def cache_bytes(self, length: int, expanded: bool) -> int:
        """Return the bytes of the cache of one sequence of this length; see :meth:`bytes_per_token`.

        States of recurrences are in the dtypes that the model gives them, all else in the format of the cache.
        """
        kept = -(-length // self._block) * self._block
        change = self._per_token(expanded) - sum(part.per_token for part in self._parts)
        states = ceil(sum(part.state_bits or 0 for part in self._parts) / 8)
        return states + self._nbytes(sum(part.elements(kept) for part in self._parts) + kept * change)

    def sequences(self, memory: int, weight_bytes: int, length: int, share: float, expanded: bool) -> int:
        """Return how many sequences of a length fit beside the weights into a share of so many bytes."""
        room = Fraction(str(share)) * memory - weight_bytes
        return max(0, int(room // self.cache_bytes(length, expanded)))

    def _per_token(self, expanded: bool) -> int:
        """Return the elements that one token adds; a model may cache latents, or what is made of them."""
        kept = sum(part.per_token for part in self._parts)
        return kept - self._of_latents[kept >= self._of_latents[True]] + self._of_latents[expanded]

    def _nbytes(self, elements: int) -> int:
        return ceil(elements * self._kv.bits_with_scales / 8)


def memory_of(device: str | PathLike[str] | Device | None) -> int:
    """Return the bytes of the memory of a device.

    Raises:
        TypeError, ValueError, OSError: if there is no such device.
        CostError: if the size of its memory is unknown.
    """
    if device is None:
        raise TypeError("max_sequences needs a device, or memory='80 GB'")
    found = named(device)
    if found.memory.dram_gb is None:
        raise CostError(
            f"the size of the memory of {found.name} is unknown: state it, as --memory '80 GB' or memory='80 GB'"
        )
    return int(1e9 * found.memory.dram_gb)
