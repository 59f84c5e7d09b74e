"""Shape rules of the operators of the ONNX standard."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.import_paths import modules_with

from ..graph.node import Rule

FAMILIES = modules_with("RULES", __package__)

RULES: Mapping[str, Rule] = {key: rule for family in FAMILIES for key, rule in family.RULES.items()}
"""Rules by full operator name."""
