"""Reference implementations that several tests execute with counting scalars."""

from __future__ import annotations

import math

import numpy as np

from tests.calculators.counting_scalar import dot, exp, fma, select, sqrt, tanh, total


def sigmoid(x):
    return 1 / (1 + exp(-x))


def attend(q, k, v, mask=None, softcap=None, keep=None):
    """One head: q[Tq, D], k[Tk, D], v[Tk, Dv]; ``mask`` adds or selects, ``keep`` drops weights."""
    result = []
    for i, query in enumerate(q):
        scores = [dot(query, key) * 0.5 for key in k]
        if softcap:
            scores = [tanh(score / softcap) * softcap for score in scores]
        if mask is not None:
            scores = [mask(score, i, j) for j, score in enumerate(scores)]
        powers = [exp(score) for score in scores]
        summed = total(powers)
        weights = [value / summed for value in powers]
        if keep is not None:
            weights = [select(keep[i, j], weight * 2.0, 0.0) for j, weight in enumerate(weights)]
        result.append([dot(weights, column) for column in v.T])
    return result


def attend_in_heads(q, k, v, **how):
    """Attention of q[N, H, Tq, D] to k and v[N, Hkv, Tk, D]; query heads share the keys of their group."""
    for n, h in np.ndindex(q.shape[:2]):
        group = h // (q.shape[1] // k.shape[1])
        attend(q[n, h], k[n, group], v[n, group], **how)


def rms_normalized(x, w):
    scale = 1 / sqrt(dot(x, x) / len(x) + 1e-6)
    return [a * scale * b for a, b in zip(x, w, strict=True)]


def eliminate(x, pivoting=True):
    m, n = x.shape
    for k in range(min(m, n)):
        if pivoting:
            best = x[k, k]
            for i in range(k + 1, m):
                best = x[i, k] if x[i, k] > best else best
        for i in range(k + 1, m):
            x[i, k] = x[i, k] / x[k, k]
            for j in range(k + 1, n):
                x[i, j] = fma(x[i, k], x[k, j], x[i, j])


def reflect(v, tau, column):
    """Subtract tau v (v . column) from a column; v starts with a 1 that is not stored."""
    s = dot(v, column[1:], column[0]) * tau
    column[0] = column[0] - s
    for i in range(len(v)):
        column[1 + i] = fma(s, v[i], column[1 + i])


def triangularize(x):
    m, n = x.shape
    made = []
    for j in range(min(m, n)):
        column = x[j:, j]
        length = sqrt(dot(column, column))
        beta = select(column[0] > 0, length, length)
        difference = column[0] - beta
        tau = difference / beta
        v = [value / difference for value in column[1:]]
        made.append((v, tau))
        for c in range(j + 1, n):
            reflect(v, tau, x[j:, c])
    return made


def reduced(terms, reduction):
    """Return the sum or the mean of losses, or all of them."""
    if reduction == "none":
        return terms
    return total(terms) / len(terms) if reduction == "mean" else total(terms)


def mean(values):
    return total(values) / len(values)


def square_windows(x, size: int, stride: int):
    """Return all windows of a square map."""
    places = range(0, x.shape[0] - size + 1, stride)
    return [list(x[i : i + size, j : j + size].ravel()) for i in places for j in places]


def adaptive_windows(x, out: tuple[int, int]):
    """Yield the windows floor(i * L / n) .. ceil((i + 1) * L / n) of a map."""
    (height, width), (rows, columns) = x.shape, out
    for i in range(rows):
        for j in range(columns):
            top, bottom = math.floor(i * height / rows), math.ceil((i + 1) * height / rows)
            left, right = math.floor(j * width / columns), math.ceil((j + 1) * width / columns)
            yield list(x[top:bottom, left:right].ravel())


def cosine(a, b):
    """Return the cosine of the angle between two vectors."""
    return dot(a, b) / (max(sqrt(dot(a, a)), 1e-8) * max(sqrt(dot(b, b)), 1e-8))


def euclidean_distance(a, b):
    """Return the distance of two vectors with an epsilon, as pairwise_distance computes it."""
    differences = [p - q + 1e-6 for p, q in zip(a, b, strict=True)]
    return sqrt(dot(differences, differences))
