"""How the weights of a model are stored."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from math import ceil

from costcore.ir import BITS
from costcore.studies.serving.cached_model import CachedModel
from costcore.studies.serving.formats import Format
from costcore.studies.serving.tally import StoredWeight


class StoredWeights:
    """How the weights of a model are stored and multiplied.

    Args:
        model: the model; its packed weights stay as they are.
        dtype: dtype of vectors, of modules that are kept, and of activations.
        weights: format of all other weights; None: ``dtype``.
        activations: dtype to which inputs of products are quantized; None: ``dtype``, or as packed weights have it.
        keep: patterns of modules whose weights are stored in ``dtype``.
    """

    def __init__(
        self, model: CachedModel, dtype: str, weights: Format | None, activations: str | None, keep: Sequence[str]
    ) -> None:
        self._model = model
        self._bits = BITS[dtype]
        self._weights = Format(dtype, self._bits) if weights is None else weights
        self._act = self._bits if activations is None else BITS[activations]
        self._keep = keep

    def width(self, module: str, ndim: int) -> StoredWeight:
        """Return how a weight is stored, by the path of its module and the number of its axes."""
        packed = self._model.packed.get(module)
        if packed is not None and ndim > 1:
            act = BITS[packed.act_dtype] if packed.act_dtype else self._act
            return StoredWeight(Fraction(8 * packed.nbytes, packed.size), packed.bits, act)
        if ndim < 2 or any(fnmatchcase(module, each) for each in self._keep):
            return StoredWeight(Fraction(self._bits), self._bits, self._bits)
        return StoredWeight(self._weights.bits_with_scales, self._weights.bits, self._act)

    @property
    def n_params(self) -> int:
        """Number of all parameters, packed ones included; tied ones count once."""
        packed = sum(each.size for each in self._model.packed.values())
        return packed + sum(each.size for each in self._model.parameters)

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters with their scales."""
        bits = sum(each.size * self.width(each.module, each.ndim).stored for each in self._model.parameters)
        return ceil(bits / 8) + sum(each.nbytes for each in self._model.packed.values())
