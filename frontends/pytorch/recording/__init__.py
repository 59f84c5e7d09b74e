"""Recording: from operator calls to :class:`~costcore.trace.call.Call` objects with ids, module and phase."""
