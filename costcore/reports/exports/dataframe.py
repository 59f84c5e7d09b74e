"""A report as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.errors import CostError


def to_dataframe(entries: Mapping[str, Mapping[str, Any]]) -> Any:
    """Entries as a ``pandas.DataFrame``, their names as its index.

    Raises:
        CostError: where pandas is not installed.
    """
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise CostError(f"a DataFrame needs pandas ({error}); install it with: pip install pandas") from error
    return DataFrame.from_records([dict(entry) for entry in entries.values()], index="name" if entries else None)
