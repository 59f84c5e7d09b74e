"""costcore: the computational cost of a neural network, by the same formulas for every framework."""

from os.path import exists as _exists

from costcore._version import __version__ as __version__

TYPE_CHECKING = False  # type checkers recognize the name; importing `typing` would double the import time
if TYPE_CHECKING:
    from costcore.api.estimate import estimate as estimate
    from costcore.api.hook import ComputationalCostHook as ComputationalCostHook
    from costcore.api.ranks import estimate_ranks as estimate_ranks
    from costcore.api.sweep import sweep as sweep
    from costcore.api.table import table as table
    from costcore.batch_size.fit import accumulation as accumulation
    from costcore.batch_size.fit import max_batch as max_batch
    from costcore.budgets.check import check as check
    from costcore.comparisons.comparison import compare as compare
    from costcore.counting.conventions.catalog import conventions as conventions
    from costcore.errors import CostError as CostError
    from costcore.errors import CostWarning as CostWarning
    from costcore.explanations.explain import explain as explain
    from costcore.explanations.reconcile import reconcile as reconcile
    from costcore.ir import Cost as Cost
    from costcore.ir import Layer as Layer
    from costcore.ir import Operations as Operations
    from costcore.ir import Tensor as Tensor
    from costcore.meter.meter import MFUMeter as MFUMeter
    from costcore.plugins import hookimpl as hookimpl
    from costcore.reports.columns import GroupColumns as GroupColumns
    from costcore.reports.columns import LayerColumns as LayerColumns
    from costcore.reports.columns import ReceptiveFieldColumns as ReceptiveFieldColumns
    from costcore.reports.columns import ReportColumns as ReportColumns
    from costcore.reports.columns import SummaryColumns as SummaryColumns
    from costcore.reports.columns import TreeColumns as TreeColumns
    from costcore.reports.report import Report as Report
    from costcore.serving.report import ServingReport as ServingReport
    from costcore.sizes.inputs import Dim as Dim
    from costcore.trace.trace import Trace as Trace
    from costcore.training.ledger import TrainingLedger as TrainingLedger


# In a checkout, calculators/ and frontends/ are next to this folder; in an installed package they are inside it.
_checkout = __path__[0].removesuffix("costcore")
_packages = _checkout + "calculators/__init__.py", _checkout + "frontends/__init__.py"
if all(map(_exists, _packages)):
    __path__.append(_checkout)

_MODULES = {
    "ComputationalCostHook": "api.hook",
    "Cost": "ir",
    "CostError": "errors",
    "CostWarning": "errors",
    "Dim": "sizes.inputs",
    "GroupColumns": "reports.columns",
    "Layer": "ir",
    "LayerColumns": "reports.columns",
    "MFUMeter": "meter.meter",
    "Operations": "ir",
    "ReceptiveFieldColumns": "reports.columns",
    "Report": "reports.report",
    "ReportColumns": "reports.columns",
    "ServingReport": "serving.report",
    "SummaryColumns": "reports.columns",
    "Tensor": "ir",
    "Trace": "trace.trace",
    "TrainingLedger": "training.ledger",
    "TreeColumns": "reports.columns",
    "accumulation": "batch_size.fit",
    "check": "budgets.check",
    "compare": "comparisons.comparison",
    "conventions": "counting.conventions.catalog",
    "estimate": "api.estimate",
    "estimate_ranks": "api.ranks",
    "explain": "explanations.explain",
    "hookimpl": "plugins",
    "max_batch": "batch_size.fit",
    "reconcile": "explanations.reconcile",
    "sweep": "api.sweep",
    "table": "api.table",
}
__all__ = [
    "ComputationalCostHook",
    "Cost",
    "CostError",
    "CostWarning",
    "Dim",
    "GroupColumns",
    "Layer",
    "LayerColumns",
    "MFUMeter",
    "Operations",
    "ReceptiveFieldColumns",
    "Report",
    "ReportColumns",
    "ServingReport",
    "SummaryColumns",
    "Tensor",
    "Trace",
    "TrainingLedger",
    "TreeColumns",
    "accumulation",
    "check",
    "compare",
    "conventions",
    "estimate",
    "estimate_ranks",
    "explain",
    "hookimpl",
    "max_batch",
    "reconcile",
    "sweep",
    "table",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from costcore.trace.gc_paused import collector_off

    with collector_off():  # beside an imported framework, one scan of all objects takes longer than the import
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
