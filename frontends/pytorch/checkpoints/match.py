"""Which tensors of a file are the parameters of a model, and how these are stored."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from torch.nn import Module, Parameter

from costcore.errors import CostError
from costcore.studies.serving.cached_model import ALL, StoredFile, StoredPart

from .stored_tensor import StoredTensor

RENAMED = {".block_sparse_moe.": ".mlp."}
"""Modules that transformers 5 calls otherwise than files that older releases wrote."""

DOWN = ("down_proj", "w2")
"""The names of the last matrices of experts that a file stores one by one; those before are one parameter."""

FEW = 3
"""The most names in a message."""


class _Matches:
    """The tensors of a file by the parameters that they hold.

    Args:
        model: the model.
        tensors: the tensors of the file.
    """

    def __init__(self, model: Module, tensors: Sequence[StoredTensor]) -> None:
        self._tensors = tensors
        self.parameters: Mapping[str, Parameter] = dict(model.named_parameters(remove_duplicate=False))
        self._names: dict[int, list[str]] = defaultdict(list)
        for name, each in self.parameters.items():
            self._names[id(each)].append(name)
        self._nbytes: dict[int, Fraction] = defaultdict(Fraction)
        self._widest: dict[int, StoredTensor] = {}
        self.others: list[str] = []

    def add(self, tensor: StoredTensor, names: Sequence[str]) -> None:
        """Add a tensor that holds parameters, each in proportion to its size; without any it is among the others."""
        sizes = [self.parameters[name].numel() for name in names]
        if not names:
            self.others.append(tensor.name)
        for name, size in zip(names, sizes, strict=True):
            key = id(self.parameters[name])
            self._nbytes[key] += Fraction(tensor.nbytes * size, sum(sizes) or 1)
            self._widest[key] = max(self._widest.get(key, tensor), tensor, key=lambda each: each.nbytes)

    def missing(self) -> list[str]:
        """Return the first names of the parameters that no tensor holds."""
        return [names[0] for key, names in self._names.items() if key not in self._nbytes]

    def file(self) -> StoredFile:
        """Return how the file stores the model."""
        nbytes: dict[tuple[str, int], Fraction] = defaultdict(Fraction)
        counts: Counter[tuple[str, int]] = Counter()
        widest: dict[tuple[str, int], StoredTensor] = {}
        for key, names in self._names.items():
            size = self.parameters[names[0]].numel()
            for name in names:
                module = name.rpartition(".")[0]
                for at in ((module, size), (module, ALL), (module.rpartition(".")[0], size)):
                    nbytes[at] += self._nbytes[key]
                    counts[at] += size
                    widest[at] = max(widest.get(at, self._widest[key]), self._widest[key], key=lambda each: each.nbytes)
        parts = {at: StoredPart(8 * nbytes[at] / (counts[at] or 1), _bits(widest[at], counts[at])) for at in nbytes}
        formats: Counter[str] = Counter()
        for tensor in self._tensors:
            formats[tensor.format] += tensor.nbytes
        total = sum(tensor.nbytes for tensor in self._tensors)
        return StoredFile(parts, total, tuple(name for name, _ in formats.most_common()), tuple(self.others))


def match_names(model: Module, tensors: Sequence[StoredTensor], names: Callable[[str], tuple[str, ...]]) -> StoredFile:
    """Return how a file stores a model whose parameters it names by a table.

    Args:
        model: the model.
        tensors: the tensors of the file.
        names: returns the parameters that a tensor holds, together with others or in parts.

    Raises:
        CostError: if elements of a parameter are missing in the file, or are too many.
    """
    matches = _Matches(model, tensors)
    found: Counter[str] = Counter()
    for tensor in tensors:
        held = [name for name in names(tensor.name) if name in matches.parameters]
        total = sum(matches.parameters[name].numel() for name in held)
        for name in held:
            found[name] += tensor.size * matches.parameters[name].numel() // (total or 1)
        matches.add(tensor, held)
    wrong = [(name, each.numel()) for name, each in model.named_parameters() if found[name] != each.numel()]
    if wrong:
        stated = ", ".join(f"{name} ({found[name]:,} of {size:,})" for name, size in wrong[:FEW])
        is_older = any(".experts.0." in name for name, _ in wrong)
        remedy = "; install transformers 5, whose experts are one parameter" if is_older else ""
        raise CostError(
            f"it has other numbers of elements than {type(model).__name__} of transformers: {stated}{remedy}"
        )
    return matches.file()


def match_modules(model: Module, tensors: Sequence[StoredTensor]) -> StoredFile:
    """Return how a file stores a model whose modules it names, in any packed form.

    A tensor without a parameter of its name belongs to those of the module at the start of its name: ``qweight``,
    ``scales`` and ``qzeros`` of a layer are its weight, the tensors of all experts those of the module of experts.

    Raises:
        CostError: if a parameter has no tensor.
    """
    matches = _Matches(model, tensors)
    by_module: dict[str, list[str]] = defaultdict(list)
    for name in matches.parameters:
        by_module[name.rpartition(".")[0]].append(name)
    base = f"{getattr(model, 'base_model_prefix', '')}."
    for tensor in tensors:
        renamed = tensor.name
        for old, new in RENAMED.items():
            renamed = renamed.replace(old, new)
        spelled = [each for name in (renamed, tensor.name) for each in (name, base + name, name.removeprefix(base))]
        matches.add(tensor, _held(spelled, matches.parameters, by_module))
    if missing := matches.missing():
        listed = ", ".join(missing[:FEW])
        raise CostError(f"it has no weights for {len(missing)} parameters of {type(model).__name__}: {listed}")
    return matches.file()


def _held(
    spellings: Sequence[str], parameters: Mapping[str, Parameter], by_module: Mapping[str, Sequence[str]]
) -> Sequence[str]:
    """Return the parameters that a tensor holds, by its name with and without the prefix of the model."""
    for name in spellings:
        if name in parameters:
            return [name]
    for name in spellings:
        words = name.split(".")
        for end in range(len(words) - 1, 0, -1):
            own = by_module.get(".".join(words[:end]), ())
            if matrices := [each for each in own if parameters[each].ndim > 1 and words[-1] != "bias"]:
                kinds = [each for each in matrices if (words[-2] in DOWN) == each.endswith("down_proj")]
                return kinds if end < len(words) - 1 and kinds else matrices
    return ()


def _bits(widest: StoredTensor, size: int) -> int:
    """Return the bits of a weight without scales, of the tensor with most bytes; an integer may hold several."""
    if widest.format.startswith(("int", "uint")) and size:
        return max(1, min(widest.bits, round(8 * widest.nbytes / size)))
    return widest.bits
