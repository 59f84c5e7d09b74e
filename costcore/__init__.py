"""costcore: the computational cost of a neural network, by the same formulas for every framework."""

import sys as _sys
from os.path import exists as _exists

from costcore._version import __version__ as __version__

TYPE_CHECKING = False  # type checkers recognize the name; importing `typing` would double the import time
if TYPE_CHECKING:
    from costcore.analyses.conventions.convention import conventions as conventions
    from costcore.api.estimate import estimate as estimate
    from costcore.api.estimate import estimate_ranks as estimate_ranks
    from costcore.api.estimate import finetuned as finetuned
    from costcore.api.hook import ComputationalCostHook as ComputationalCostHook
    from costcore.errors import CostError as CostError
    from costcore.errors import CostWarning as CostWarning
    from costcore.ir import Cost as Cost
    from costcore.ir import Layer as Layer
    from costcore.ir import Operations as Operations
    from costcore.ir import Tensor as Tensor
    from costcore.plugins import hookimpl as hookimpl
    from costcore.registry import costs as costs
    from costcore.reports.report import Report as Report
    from costcore.studies.batch_size import accumulation as accumulation
    from costcore.studies.batch_size import max_batch as max_batch
    from costcore.studies.budgets import check as check
    from costcore.studies.comparisons.comparison import compare as compare
    from costcore.studies.explain import explain as explain
    from costcore.studies.fit import fit as fit
    from costcore.studies.meter import MFUMeter as MFUMeter
    from costcore.studies.plans import plan as plan
    from costcore.studies.ranks import profile_ranks as profile_ranks
    from costcore.studies.reconcile import reconcile as reconcile
    from costcore.studies.serving.report import ServingReport as ServingReport
    from costcore.studies.sweeps.table import sweep as sweep
    from costcore.studies.sweeps.table import table as table
    from costcore.studies.training.ledger import TrainingLedger as TrainingLedger
    from costcore.tables.columns import GroupColumns as GroupColumns
    from costcore.tables.columns import LayerColumns as LayerColumns
    from costcore.tables.columns import ReceptiveFieldColumns as ReceptiveFieldColumns
    from costcore.tables.columns import ReportColumns as ReportColumns
    from costcore.tables.columns import SummaryColumns as SummaryColumns
    from costcore.tables.columns import TreeColumns as TreeColumns
    from costcore.tables.result import quantities as quantities
    from costcore.trace.trace import Dim as Dim
    from costcore.trace.trace import Trace as Trace
    from costcore.trace.trace import Value as Value


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
    "Dim": "trace.trace",
    "GroupColumns": "tables.columns",
    "Layer": "ir",
    "LayerColumns": "tables.columns",
    "MFUMeter": "studies.meter",
    "Operations": "ir",
    "ReceptiveFieldColumns": "tables.columns",
    "Report": "reports.report",
    "ReportColumns": "tables.columns",
    "ServingReport": "studies.serving.report",
    "SummaryColumns": "tables.columns",
    "Tensor": "ir",
    "Trace": "trace.trace",
    "TrainingLedger": "studies.training.ledger",
    "TreeColumns": "tables.columns",
    "Value": "trace.trace",
    "accumulation": "studies.batch_size",
    "check": "studies.budgets",
    "compare": "studies.comparisons.comparison",
    "conventions": "analyses.conventions.convention",
    "costs": "registry",
    "estimate": "api.estimate",
    "estimate_ranks": "api.estimate",
    "explain": "studies.explain",
    "finetuned": "api.estimate",
    "fit": "studies.fit",
    "hookimpl": "plugins",
    "max_batch": "studies.batch_size",
    "plan": "studies.plans",
    "profile_ranks": "studies.ranks",
    "quantities": "tables.result",
    "reconcile": "studies.reconcile",
    "sweep": "studies.sweeps.table",
    "table": "studies.sweeps.table",
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
    "Value",
    "accumulation",
    "check",
    "compare",
    "conventions",
    "costs",
    "estimate",
    "estimate_ranks",
    "explain",
    "finetuned",
    "fit",
    "hookimpl",
    "max_batch",
    "plan",
    "profile_ranks",
    "quantities",
    "reconcile",
    "sweep",
    "table",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from costcore.trace.interrupts import collector_off

    with collector_off():  # beside an imported framework, one scan of all objects takes longer than the import
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


class _MissingParts:
    """The last import finder: raises an error that names the missing analysis or study."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.count(".") == 2 and name.startswith(("costcore.analyses.", "costcore.studies.")):
            from costcore.errors import MissingPartError

            raise MissingPartError(name)


_sys.meta_path.append(_MissingParts)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
