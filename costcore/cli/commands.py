"""The commands of the command line."""

from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "calibrate": "costcore.cli.calibrate:main",
    "check": "costcore.cli.check:main",
    "conventions": "costcore.cli.conventions:main",
    "devices": "costcore.cli.devices:main",
    "diff": "costcore.cli.diff:main",
    "explain": "costcore.cli.explain:main",
    "memory": "costcore.cli.memory:main",
    "plot": "costcore.cli.plot:main",
    "profile": "costcore.cli.profile:main",
    "reconcile": "costcore.cli.reconcile:main",
    "serve": "costcore.cli.serve:main",
    "table": "costcore.cli.table:main",
    "time": "costcore.cli.time:main",
    "train": "costcore.cli.train:main",
}
"""The other commands, each with the function that runs it."""

DESCRIPTION = """Report the computational cost of one pass of a neural network: FLOPs, MACs, bytes read and
written, and parameters.

commands (costcore COMMAND --help lists their options):
  costcore MODEL               report the cost of a model (options below)
  costcore diff OLD NEW        compare two models or saved reports
  costcore check MODEL         check a model against a budget
  costcore table MODEL ...     list several models, one row per model
  costcore plot MODEL          draw operators, modules, memory, a roofline or sizes
  costcore memory MODEL        find the largest batch that fits into a memory
  costcore explain MODEL N     say by which rules somebody got the number N
  costcore reconcile MODEL A B list why the conventions A and B differ
  costcore conventions         list the conventions
  costcore time MODEL          state how long a run takes at least on a device
  costcore profile TRACE       state where the time of a recorded run goes
  costcore train MODEL         state the FLOPs of a training run, and its MFU
  costcore serve MODEL         state what prefill and decode of a language model cost
  costcore devices             list the devices
  costcore calibrate           measure a device, so that times can be estimated"""
