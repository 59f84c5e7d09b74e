"""Callbacks that run :class:`costcore.MFUMeter` in other libraries; each module imports its library."""
