"""What this installation has, plug-ins included: frontends, calculators, modes of tables, exports and models."""

from __future__ import annotations

from costcore.api.estimate import load_model
from costcore.registry import ability, calculators, default_inputs, load, needed_ability, plugin_rows, specs
from costcore.reports.exports import Export, exports
from costcore.tables.renderers import renderers

__all__ = [
    "Export",
    "ability",
    "calculators",
    "default_inputs",
    "exports",
    "load",
    "load_model",
    "needed_ability",
    "plugin_rows",
    "renderers",
    "specs",
]
