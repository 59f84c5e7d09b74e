"""Dtypes by the names and numbers that traces have for them."""

from __future__ import annotations

import torch

_NAMES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "bool": "bool",
    "c10::complex<c10::Half>": "complex32",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu",
    "c10::Float4_e2m1fn_x2": "float4_e2m1fn_x2",
    "c10::quint8": "quint8",
    "c10::qint8": "qint8",
    "c10::qint32": "qint32",
}

_CODES = {
    **dict(enumerate(("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32"))),
    9: "complex64",
    10: "complex128",
    11: "bool",
    12: "qint8",
    13: "quint8",
    14: "qint32",
    15: "bfloat16",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    25: "float8_e5m2fnuz",
    26: "float8_e4m3fnuz",
    27: "uint16",
    28: "uint32",
    29: "uint64",
    44: "float8_e8m0fnu",
    45: "float4_e2m1fn_x2",
}
"""The numbers of ``c10::ScalarType``, which name a dtype among the arguments."""

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, dtype) for name, dtype in _NAMES.items() if hasattr(torch, dtype)
}
"""Dtypes by the name in a trace; releases of PyTorch lack some of them."""

BY_CODE: dict[int, torch.dtype] = {
    code: getattr(torch, dtype) for code, dtype in _CODES.items() if hasattr(torch, dtype)
}

FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
"""Memory formats by number."""

WRAPPED = {"double": 1.0, "long int": 1, "long": 1, "bool": True, "c10::complex<double>": 1j}
"""The dtypes of Python numbers in a trace, which are tensors without axes there, and a number of each."""

_IN_KERNELS = (
    ("BFloat16", "bfloat16"),
    ("bfloat16", "bfloat16"),
    ("Half", "float16"),
    ("float", "float32"),
    ("double", "float64"),
    ("long", "int64"),
    ("int", "int32"),
)


def dtype_in(kernel: str) -> torch.dtype | None:
    """Return the dtype that the name of a kernel on a list of tensors states; None if it states none."""
    metadata = kernel.rpartition("Metadata")[2]
    return next((getattr(torch, dtype) for word, dtype in _IN_KERNELS if word in metadata), None)
