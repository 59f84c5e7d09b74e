"""The arguments of methods that write a table, once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, Protocol, cast, overload

from costcore.tables.show import one_stream

if TYPE_CHECKING:
    from costcore.tables.table_data import TableData


class WritesTable(Protocol):
    """A method that writes a table."""

    def __call__(
        self,
        ost: IO[str] | None = None,
        mode: str | None = None,
        unit: str | None = ...,
        columns: Sequence[str] | None = ...,
        n_digits: int | None = 3,
        dst: IO[str] | None = None,
        *,
        sort: str | None = None,
        top: int | None = ...,
        **of_table: Any,
    ) -> None:
        """Write the table; arguments as for :meth:`costcore.Report.show_report`."""


class TableMethod(Protocol):
    """:class:`WritesTable` as an attribute of a class."""

    @overload
    def __get__(self, result: None, owner: Any = None) -> Callable[..., None]: ...
    @overload
    def __get__(self, result: object, owner: Any = None) -> WritesTable: ...


def writes_table(
    default: Sequence[str] | None = None,
    unit: str | None = "autoaligned",
    top: int | None = None,
    elsewhere: str = "table",
    by_mode: bool = False,
    has_lines: bool = False,
) -> Callable[[Callable[..., TableData]], TableMethod]:
    """Return a decorator of a method that returns a table; the method then writes it.

    The method gets ``top``, and of ``columns``, ``sort`` and the options of this table those that are not None.

    Args:
        default: the columns that the table has by default.
        unit: the default prefix of amounts.
        top: the default number of rows.
        elsewhere: the format of streams that are neither a terminal nor a notebook.
        by_mode: whether the method gets the ``mode`` too, because the rows depend on it.
        has_lines: whether boxes that are asked for have lines between their rows, too.
    """

    def decorate(table_of: Callable[..., TableData]) -> TableMethod:
        def show(
            self: Any,
            ost: IO[str] | None = None,
            mode: str | None = None,
            unit: str | None = unit,
            columns: Sequence[str] | None = default,
            n_digits: int | None = 3,
            dst: IO[str] | None = None,
            *,
            sort: str | None = None,
            top: int | None = top,
            **of_table: Any,
        ) -> None:
            given = {"columns": default if columns is None else columns, "sort": sort, **of_table}
            if by_mode:
                given["mode"] = mode
            table = table_of(self, top=top, **{name: value for name, value in given.items() if value is not None})
            table.write(one_stream(ost, dst), mode, unit, n_digits, elsewhere, has_lines and mode == "table")

        show.__name__, show.__qualname__ = table_of.__name__, table_of.__qualname__
        show.__doc__, show.__module__ = table_of.__doc__, table_of.__module__
        return cast("TableMethod", show)

    return decorate
