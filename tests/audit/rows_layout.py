"""Views cost nothing; copies read and write; no operator here computes, but fold."""

from __future__ import annotations

import torch
from torch.nn import functional as fn

from .modules import function
from .row import FLOAT, Row

X = (3, 5)


def moves(name, call, inputs, read, written, why, **kinds):
    """Return the row of an operator that reads and writes that many elements of float32."""
    return Row(name, function(call), inputs, why, kinds | {"read": FLOAT * read, "written": FLOAT * written})


ROWS = [
    moves("view", lambda x: x.view(15), X, 0, 0, "an alias"),
    moves("transpose", lambda x: x.transpose(0, 1), X, 0, 0, "an alias"),
    moves("slice", lambda x: x[:, 1:3], X, 0, 0, "an alias"),
    moves("expand", lambda x: x.expand(3, 5), (3, 1), 0, 0, "an alias"),
    moves("split", lambda x: x.split(2, 1), X, 0, 0, "aliases"),
    moves("unfold-view", lambda x: x.unfold(1, 3, 1), X, 0, 0, "an alias"),
    moves("reshape-free", lambda x: x.reshape(5, 3), X, 0, 0, "reshape is free"),
    moves("reshape-copy", lambda x: x.t().reshape(15), X, 15, 15, "the transposed tensor has to be copied"),
    moves("contiguous", lambda x: x.t().contiguous(), X, 15, 15, "a copy"),
    moves("contiguous-free", lambda x: x.contiguous(), X, 0, 0, "already contiguous: an alias"),
    moves("contiguous-expanded", lambda x: x.expand(3, 5).contiguous(), (3, 1), 3, 15, "reads the 3 stored, writes 15"),
    moves("clone", torch.clone, X, 15, 15, "a copy"),
    moves("clone-slice", lambda x: x[:, 1:3].clone(), X, 6, 6, "a copy of 6 elements"),
    moves("narrow_copy", lambda x: torch.narrow_copy(x, 1, 1, 2), X, 6, 6, "a copy of 6 elements"),
    moves("cat", lambda a, b: torch.cat([a, b]), (X, (2, 5)), 25, 25, "reads both, writes both"),
    moves(
        "cat-expanded", lambda a, b: torch.cat([a, b.expand(3, 5)]), (X, (3, 1)), 18, 30, "reads 15 and the 3 stored"
    ),
    moves("stack", lambda a, b: torch.stack([a, b]), (X, X), 30, 30, "reads both, writes both"),
    moves("repeat", lambda x: x.repeat(2, 2), (2, 3), 6, 24, "as broadcast_to: reads 6, writes 24"),
    moves("repeat_interleave", lambda x: x.repeat_interleave(2, 0), (2, 3), 6, 12, "reads 6, writes 12"),
    moves("flip", lambda x: x.flip(0), X, 15, 15, "a copy"),
    moves("roll", lambda x: x.roll(1, 0), X, 15, 15, "a copy"),
    moves("pad-constant", lambda x: fn.pad(x, (1, 1)), (2, 3), 6, 10, "padding is not read: reads 6, writes 2·5"),
    moves("pad-crop", lambda x: fn.pad(x, (-1, 0)), (2, 3), 4, 4, "a negative pad cuts: reads what it writes"),
    moves("pad-reflect", lambda x: fn.pad(x, (2, 2), mode="reflect"), (1, 2, 4), 8, 16, "an element is read once"),
    moves("tril", torch.tril, (4, 4), 10, 16, "the 10 elements on and below the diagonal are needed"),
    moves("pixel_shuffle", lambda x: fn.pixel_shuffle(x, 2), (1, 8, 2, 2), 32, 32, "a copy"),
    moves("pixel_unshuffle", lambda x: fn.pixel_unshuffle(x, 2), (1, 2, 4, 4), 32, 32, "a copy"),
    moves("channel_shuffle", lambda x: fn.channel_shuffle(x, 2), (1, 4, 3, 3), 36, 36, "a copy"),
    moves("unfold", lambda x: fn.unfold(x, 2), (1, 2, 4, 4), 32, 72, "9 windows of 2·4; an element is read once"),
    moves(
        "fold",
        lambda x: fn.fold(x, (4, 4), 2),
        (1, 8, 9),
        72,
        32,
        "72 elements are added to an output of zeros",
        add=72,
    ),
    moves("diagonal", torch.diagonal, (4, 4), 0, 0, "an alias"),
    moves("unsqueeze", lambda x: x[:, None], X, 0, 0, "an alias"),
    moves("flatten", torch.flatten, X, 0, 0, "an alias"),
    moves(
        "repeat-heads",
        lambda x: x[:, :, None].expand(1, 2, 2, 3, 4).reshape(1, 4, 3, 4),
        (1, 2, 3, 4),
        24,
        48,
        "the reshape of an expanded view copies: reads the 24 stored, writes 48",
    ),
    moves("copy_", lambda a, b: a.copy_(b), (X, X), 15, 15, "reads the source, writes the target"),
    moves("copy_-expanded", lambda a, b: a.copy_(b), (X, (3, 1)), 3, 15, "reads a source of 3, writes 15"),
    moves("to-same-type", lambda x: x.to(torch.float32), X, 0, 0, "nothing to convert: an alias"),
    moves("fill_", lambda x: x.fill_(1.0), X, 0, 15, "reads nothing, writes 15"),
    moves(
        "pad-circular",
        lambda x: fn.pad(x, (2, 2), mode="circular"),
        (1, 2, 4),
        16,
        16,
        "copies of 8, 4 and 4, as executed",
    ),
    moves("tile", lambda x: x.tile(3), (2, 3), 6, 18, "as broadcast_to: reads 6, writes 18"),
    moves("movedim", lambda x: x.movedim(0, 1), X, 0, 0, "an alias"),
    moves("chunk", lambda x: x.chunk(2, 1), X, 0, 0, "aliases"),
    moves("triu", torch.triu, (4, 4), 10, 16, "the 10 elements on and above the diagonal are needed"),
    moves("diag", torch.diag, (3,), 3, 9, "reads the diagonal, writes a matrix"),
    moves("diag_embed", torch.diag_embed, (2, 3), 6, 18, "reads the diagonals, writes matrices"),
]
