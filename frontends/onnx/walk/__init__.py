"""The walk over a graph that records every node as a call: functions, branches, loops."""
