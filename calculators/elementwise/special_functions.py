"""Special functions: Bessel functions, orthogonal polynomials and the like."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, element_wise

SPECIAL = Operations(special=1)

UNARY: Mapping[str, PerElement] = {
    name: PerElement(SPECIAL, f"{name}(x)")
    for name in (
        *("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "spherical_bessel_j0"),
        *("modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1"),
        *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"),
    )
}


@element_wise
@covers(UNARY)
def calc_special_function(layer: Layer) -> Cost:
    """Special functions of one operand: one special per element.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(layer["x"].size * UNARY[layer.op].operations, layer.read, layer.written, layer.attrs)


POLYNOMIALS: Mapping[str, PerElement] = {
    name: PerElement(SPECIAL, f"{name}(x0, x1)")
    for name in (
        *("chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w"),
        *("shifted_chebyshev_t", "shifted_chebyshev_u", "shifted_chebyshev_v", "shifted_chebyshev_w"),
        *("hermite_h", "hermite_he", "laguerre_l", "legendre_p"),
    )
}


@element_wise
@covers(POLYNOMIALS)
def calc_orthogonal_polynomial(layer: Layer) -> Cost:
    """Orthogonal polynomials of the element x0 and the degree x1: one special per output element.

    The degree is data, so the length of the recurrence that evaluates the polynomial is unknown.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    return Cost(layer.out.size * POLYNOMIALS[layer.op].operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_multivariate_lgamma(layer: Layer) -> Cost:
    """Logarithm of the multivariate gamma function of dimension p.

    It is the sum of lgamma(x + (1 - j) / 2) for j = 1 .. p and a constant: p special; p - 1 shifts, p - 1 additions and
    one addition of the constant, 2 p - 1 add in all.

    Shapes: x[N, C] -> y[N, C]
    Settings: dimension=p
    """
    p = layer.attrs["dimension"]
    return Cost(layer["x"].size * Operations(special=p, add=2 * p - 1), layer.read, layer.written, layer.attrs)


@element_wise
def calc_frexp(layer: Layer) -> Cost:
    """Mantissa and exponent of a number, which are some of its bits: one cmp per element.

    Shapes: x[N, C] -> mantissa[N, C], exponent[N, C]
    """
    return Cost(Operations(cmp=layer["x"].size), layer.read, layer.written, layer.attrs)
