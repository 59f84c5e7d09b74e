"""A report as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.errors import CostError


def to_dataframe(entries: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return a ``pandas.DataFrame`` with one row per entry, indexed by name.

    Raises:
        CostError: if pandas is not installed.
    """
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise CostError(
            f"to_dataframe needs pandas, which cannot be imported ({error}). Run pip install pandas."
        ) from error
    return DataFrame.from_records([dict(entry) for entry in entries.values()], index="name" if entries else None)
