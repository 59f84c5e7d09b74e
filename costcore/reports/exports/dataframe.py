"""A report as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.errors import CostError


def to_dataframe(entries: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return a ``pandas.DataFrame`` with one row per entry, indexed by name.

    Raises:
        CostError: if pandas is not installed.
    """
    records = [dict(entry) for entry in entries.values()]
    return _pandas().DataFrame.from_records(records, index="name" if entries else None)


def columns_to_dataframe(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return a ``pandas.DataFrame`` of these columns; integers stay exact beside missing values.

    Raises:
        CostError: if pandas is not installed.
    """
    return _pandas().DataFrame(columns, dtype=object).convert_dtypes()


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise CostError(
            f"to_dataframe needs pandas, which cannot be imported ({error}). Run pip install pandas."
        ) from error
    return pandas
