"""The ways to attend to latent vectors, of which keys and values are made.

DeepSeek-AI, "DeepSeek-V2", arXiv:2405.04434, section 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from costcore.numbers.dims import Dim, as_dim, is_symbolic
from costcore.studies.serving.cached_model import Latent
from costcore.studies.serving.point import Point
from costcore.studies.serving.tally import Kind, Tally

WAYS = ("expanded", "absorbed", "recomputed")
"""The ways.

* ``expanded``: every token is expanded once, and its keys and values are kept.
* ``absorbed``: queries are multiplied by the expansion of keys, and results by that of values, with as many products
  per new token as its expansion needs; attention is to latents, which are kept.
* ``recomputed``: latents are kept, and all are expanded in every pass.
"""


def attended(
    by_op: Mapping[Kind, Tally], latents: Sequence[Latent], point: Point, how: str, bits: Fraction
) -> dict[Kind, Tally]:
    """Return the sums of a pass that attends to latent vectors in one of the ways.

    Args:
        by_op: the sums as they were captured.
        latents: the attention layers that make keys and values of a latent vector.
        point: the sizes of the pass.
        how: one of :data:`WAYS`.
        bits: bits of a number in the cache.
    """
    sums = {kind: _as_kept(kind, tally, point, how) for kind, tally in by_op.items()}
    new, context = point.batch * point.tokens, point.past + point.tokens
    kept = sum(each.expanded if how == "expanded" else each.cached for each in latents) * bits
    pairs = sum(each.absorbed_macs - each.expanded_macs for each in latents) if how == "absorbed" else 0
    macs, loaded, stored = new * context * pairs, point.batch * context * kept, new * kept
    kind = next(kind for kind, tally in sums.items() if kind.is_latent and tally.cache_macs)
    change = Tally(macs=macs, flops=macs, cache_macs=macs, load_kv=loaded, store_kv=stored, copied=2 * loaded + stored)
    return {**sums, kind: sums[kind].plus(change)}


def _as_kept(kind: Kind, tally: Tally, point: Point, how: str) -> Tally:
    """Return the sums of calls without what they read of a cache of latents, and without what they expand anew."""
    if not kind.is_latent:
        return tally
    again = 0 if how == "recomputed" else _part(tally.expand_macs * point.past, point.past + point.tokens)
    return tally._replace(macs=tally.macs - again, flops=tally.flops - again, load_kv=0, store_kv=0, copied=0)


def _part(products: Dim, length: Dim) -> Dim:
    """Return the quotient of products and the length that they are a multiple of."""
    if not is_symbolic(products):
        return products // length
    from sympy import cancel

    return as_dim(cancel(products / length))
