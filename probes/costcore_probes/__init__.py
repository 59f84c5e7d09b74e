"""Networks with answers derived by hand, to test any counter of FLOPs, MACs and parameters."""

from .catalogue import all_probes, find
from .probe import Probe

__all__ = ["Probe", "__version__", "all_probes", "find"]

__version__ = "0.1.0"
