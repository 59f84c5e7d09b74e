"""How the weights of a model are stored."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from math import ceil

from costcore.ir import BITS, Tensor
from costcore.studies.serving.cached_model import CachedModel, Parameter
from costcore.studies.serving.formats import Format
from costcore.studies.serving.tally import StoredWeight

_FEW = 3
"""The most names in a remark."""


class StoredWeights:
    """How the weights of a model are stored and multiplied.

    Args:
        model: the model; its packed weights stay as they are, and all that it has of a file without ``weights``.
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
        self._file = model.file if weights is None else None

    def width(self, module: str, weight: Parameter | Tensor) -> StoredWeight:
        """Return how a weight is stored, by the path of its module, its size and the number of its axes."""
        part = self._file and self._file.part(module, weight.size)
        if part:
            return StoredWeight(part.bits_with_scales, part.bits, self._act)
        packed, ndim = self._model.packed.get(module), weight.ndim
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
        """Bytes of all parameters with their scales; those of all tensors of a file."""
        if self._file is not None:
            return self._file.nbytes
        bits = sum(each.size * self.width(each.module, each).stored for each in self._model.parameters)
        return ceil(bits / 8) + sum(each.nbytes for each in self._model.packed.values())

    @property
    def format(self) -> str:
        """The format of matrices; the formats of a file, that of most bytes first."""
        return self._weights.name if self._file is None else ", ".join(self._file.formats)

    @property
    def notes(self) -> tuple[str, ...]:
        """A remark on tensors of the file that hold no parameter of the model."""
        others = () if self._file is None else self._file.others
        if not others:
            return ()
        more = f" and {len(others) - _FEW} more" if len(others) > _FEW else ""
        listed = ", ".join(others[:_FEW])
        return (
            f"the file stores {listed}{more} too, which the model does not have: the bytes of weights include them",
        )
