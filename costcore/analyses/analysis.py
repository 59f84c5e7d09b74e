"""What an analysis states about itself. Everything that takes time to import is an import path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from costcore.command import Command

if TYPE_CHECKING:
    from costcore.ledger.ledger import Ledger
    from costcore.trace.trace import Trace

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Analyzed(Protocol):
    """What an analysis gets: a report, of which it uses the run and its entries and sums.

    ``type(report)(trace)`` is the report of another trace.
    """

    @property
    def trace(self) -> Trace:
        """The run."""

    @property
    def ledger(self) -> Ledger:
        """The entries of its calls, and sums of any of them."""


class View(NamedTuple):
    """A table of ``costcore MODEL``, which the flag ``--NAME`` of its analysis shows.

    Attributes:
        help: what its rows are.
        table: import path of the function that returns it, ``table(report, columns=…, sort=…, top=…)`` with the options
            of :attr:`arguments`. Default: what ``print`` shows of the result, its tables with these columns and rows.
        columns: import path of its columns by name.
        column_sets: import path of the class with its sets of columns, ``DEFAULT`` and ``ALL``.
        beside: the columns that it chooses beside ``--by``.
        rows: why ``--by`` cannot choose its rows; empty if it can.
        order: why ``--sort`` cannot change the order of its rows; empty if it can.
        top: the number of rows that it shows by default; None for all.
        arguments: arguments of ``ArgumentParser.add_argument`` by flag, for options of this view only.
        without_flops: whether no column has FLOPs, so that a convention does not change it.
        is_of_original: whether fusion does not change it, so that ``--fusion`` is refused.
    """

    help: str
    table: str = ""
    columns: str = ""
    column_sets: str = ""
    beside: Sequence[str] = ()
    rows: str = ""
    order: str = ""
    top: int | None = None
    arguments: Mapping[str, Mapping[str, Any]] = NOTHING
    without_flops: bool = False
    is_of_original: bool = False


class Analysis(NamedTuple):
    """A question about one run, ``report.analysis(NAME)``, with all that tables, pages and commands need of it.

    Functions are named by import paths, ``package.module:name``, and imported when they are used. Each gets the
    report, an :class:`Analyzed`. A path names what is in the folder of the analysis, or below it.

    ::

        Analysis("cycles", "cycles of an array of multipliers", "acme.cycles:cycles_of", section="acme.cycles:section")

    Attributes:
        name: its name, one word.
        doc: what it answers, in one phrase.
        compute: the function that answers, ``compute(report, **options)``; a :class:`costcore.tables.result.Result`
            prints and has every format.
        needs: options of :func:`costcore.estimate` without which a run does not have it.
        quantities: its quantities, a sequence of ``Quantity``: columns, figures of budgets, comparisons and pictures.
        section: its section of the HTML page, a function ``section(report)`` that returns HTML; empty for none. Names
            that models choose are not trusted: ``costcore.tables.html.text`` escapes them.
        style: import path of the text of its style sheet on the page.
        script: import path of the text of its script on the page, which runs after that of the page.
        pictures: kinds of ``report.plot``, by name: functions ``draw(report, theme, **options)`` that return a
            ``Picture``.
        view: its table of ``costcore MODEL --NAME``.
        command: its command.
        data: its part of the JSON of a report, a function ``data(report)`` that returns plain JSON types.
    """

    name: str
    doc: str
    compute: str
    needs: Mapping[str, Any] = NOTHING
    quantities: str = ""
    section: str = ""
    style: str = ""
    script: str = ""
    pictures: Mapping[str, str] = NOTHING
    view: View | None = None
    command: Command | None = None
    data: str = ""
