"""Results as data: plain JSON types, CSV and data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.errors import CostError
from costcore.messages import import_problem
from costcore.tables.answer import Answer
from costcore.tables.quantity import NUMERIC
from costcore.tables.renderers import to_csv as text_to_csv
from costcore.tables.table_data import Row, TableData
from costcore.text.table import Column
from costcore.text.values import Shown, jsonable

FIGURE_COLUMNS = [Column(key, key.capitalize()) for key in ("name", "title", "value", "kind", "note", "certainty")]
"""The columns of the table of figures."""


def to_dict(answer: Answer) -> dict[str, Any]:
    """Return an answer in plain JSON types, as ``costcore/tables/result.schema.json`` describes them."""
    return {
        "title": answer.title,
        "figures": {each.name: _without_name(each._asdict()) for each in answer.figures},
        "tables": [_table(each.whole) for each in answer.tables],
        "remarks": list(answer.remarks),
    }


def table_of(answer: Answer, index: int) -> TableData:
    """Return a table of an answer with all its rows; a table of the figures if there are no tables.

    Raises:
        ValueError: if there are fewer tables.
    """
    if not answer.tables and index == 0:
        return TableData(answer.title, FIGURE_COLUMNS, [each._asdict() for each in answer.figures])
    if not 0 <= index < len(answer.tables):
        titles = "; ".join(f"{i} is {each.title!r}" for i, each in enumerate(answer.tables))
        raise ValueError(f"there is no table {index!r} ({titles or 'there are figures only'})")
    return answer.tables[index].whole


def to_csv(table: TableData) -> str:
    """Return the rows as CSV with exact values; the first line has the keys of the columns."""
    text = table.part([_exact(row, table.columns) for row in table.rows])
    text.columns = [column._replace(title=column.key, kind="text") for column in table.columns]
    text.total = None
    numeric = [column.kind in NUMERIC for column in table.columns]
    return text_to_csv(text.text(None)._replace(numeric=numeric))


def to_pandas(table: TableData) -> Any:
    """Return the rows as a ``pandas.DataFrame`` with exact values.

    Raises:
        CostError: if pandas is not installed.
    """
    return data_frame({column.key: [_value(row, column) for row in table.rows] for column in table.columns})


def data_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return a ``pandas.DataFrame`` of these columns; integers stay exact beside missing values.

    Raises:
        CostError: if pandas is not installed.
    """
    frame = imported_pandas("to_pandas").DataFrame(columns, dtype=object)
    for name, values in columns.items():
        if not any(isinstance(value, int) and value.bit_length() > 63 for value in values):  # pandas 2 refuses to look
            frame[name] = frame[name].convert_dtypes()
    return frame


def imported_pandas(caller: str) -> Any:
    """Return the module ``pandas``.

    Raises:
        CostError: if it is not installed; the message names the caller.
    """
    try:
        import pandas
    except ImportError as error:
        raise CostError(import_problem(caller, "pandas", error)) from error
    return pandas


def _table(table: TableData) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": [_plain_column(column) for column in table.columns],
        "rows": [_plain(row, table.columns) for row in table.rows],
        "total": None if table.total is None else _plain(table.total, table.columns),
        "unit": table.unit,
    }


def _plain_column(column: Column) -> dict[str, str]:
    return {key: value for key, value in column._asdict().items() if key != "unit" or value}


def _plain(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    return {column.key: jsonable(_value(row, column)) for column in columns}


def _exact(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    """Return the values of a row; those that are unknown or do not apply are empty."""
    values = {column.key: _value(row, column) for column in columns}
    texts = {key: repr(value) for key, value in values.items() if isinstance(value, float)}
    return {key: "" if value is None else value for key, value in {**values, **texts}.items()}


def _value(row: Row, column: Column) -> Any:
    """Return a value; None if it is unknown, or if it does not apply."""
    value = row.get(column.key)
    value = value.value if isinstance(value, Shown) else value
    return None if value == "" and column.kind in NUMERIC else value


def _without_name(figure: dict[str, Any]) -> dict[str, Any]:
    return {key: jsonable(value) for key, value in figure.items() if key != "name"}
