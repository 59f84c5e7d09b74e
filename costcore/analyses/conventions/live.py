"""Which calls the returned values depend on; tracing tools drop all others."""

from __future__ import annotations

from costcore.trace.trace import Trace


def live_calls(trace: Trace) -> set[int] | None:
    """Return the positions of the calls on which the returned values depend; None if the run does not know these.

    A call is needed if it writes to a storage that is needed later, so calls in place count too.
    """
    if not trace.run.returned:
        return None
    returned = set(trace.run.returned)
    needed: set[int] = set()
    live: set[int] = set()
    for position in range(len(trace.records) - 1, -1, -1):
        call = trace.records[position].call
        ids = (*call.inputs, *call.outputs)
        storage = dict(zip(ids, call.storages, strict=False))
        needed |= {storage.get(each, 0) or -each for each in ids if each in returned}
        keys = {each: storage.get(each, 0) or -each for each in ids if each}
        if any(keys[each] in needed for each in call.outputs if each):
            live.add(position)
            needed |= {keys[each] for each in call.inputs if each}
    return live
