"""The receptive field: which positions of the input can change one position of an output.

Along each axis of the input, every value of a run carries a periodic map from its positions to intervals of input
positions (``periodic_map``). ``rules`` has a rule per operator, ``propagate`` applies them over a trace, ``fields`` is
the result.
"""
