"""The receptive field: which positions of the input can change one position of an output.

For each axis of the input, every value of a run has a periodic map from its positions to intervals of input positions
(``dependence``). ``rules`` has a rule per operator. ``fields`` applies the rules to a trace and has the result.
"""

from costcore.analyses.analysis import Analysis, View

ANALYSES = (
    Analysis(
        "receptive_field",
        "which positions of the input can change one position of an output",
        f"{__name__}.fields:fields_of",
        quantities=f"{__name__}.fields:QUANTITIES",
        view=View(
            "which input positions each output position sees, per call",
            f"{__name__}.fields:table_of",
            "costcore.tables.columns:RECEPTIVE_FIELDS",
            "costcore.tables.columns:ReceptiveFieldColumns",
            beside=("output_shape", "receptive_field"),
            without_flops=True,
            is_of_original=True,
        ),
    ),
)
