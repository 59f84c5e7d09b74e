"""Rows of special functions: gamma, error and Bessel functions, orthogonal polynomials."""

from __future__ import annotations

from costcore.translate import Row, Source

from ..arguments import X, rows_by_name, tensor_or_number

_FUNCTIONS = """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 spherical_bessel_j0 modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
"""
_POLYNOMIALS = """
chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
"""
_PAIR: dict[str, Source] = {"x0": tensor_or_number("self"), "x1": tensor_or_number("other")}

ROWS = (
    *rows_by_name(
        "erf erfc erfinv lgamma digamma i0 special_i0e=i0e special_i1=i1 special_i1e=i1e special_ndtri=ndtri "
        "special_log_ndtr=log_ndtr special_erfcx=erfcx special_entr=entropy",
        X,
    ),
    *(Row(f"aten::special_{name}", name, X) for name in _FUNCTIONS.split()),
    *(
        Row(
            f"aten::special_{name}",
            name.replace("_polynomial", ""),
            {"x0": tensor_or_number("x"), "x1": tensor_or_number("n")},
        )
        for name in _POLYNOMIALS.split()
    ),
    *rows_by_name("igamma igammac special_zeta=zeta", _PAIR),
    Row("aten::polygamma", "polygamma", {"x0": tensor_or_number("n"), "x1": "self"}),
    Row("aten::mvlgamma", "multivariate_lgamma", X, {"dimension": "p"}),
)
