"""The writer of one run: turns a function and its arrays into a call of the recorder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import chainer

from costcore.errors import CostError
from costcore.ir import Role, Tensor
from costcore.registry.frontends import rows
from costcore.trace.call import Call
from costcore.trace.recorder import CPU_TIME, Recorder
from costcore.trace.source import user_traceback
from costcore.translate import Native, Translation, Translator, flatten

from ..arrays import ArrayIds, array_of, is_array, tensor
from ..naming import function_of
from ..rows.arguments import ARGUMENTS
from .link_hook import LinkHook
from .native_calculators import native_cost
from .return_values import MethodWatch


class Recording:
    """Writes the functions of one run into a recorder.

    Args:
        recorder: the recorder to write to.

    Attributes:
        arrays: the ids of the arrays of the run.
        links: the hook that follows which link is running.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.arrays = ArrayIds(recorder)
        self.links = LinkHook(self._add_parameters, self._add_inputs)
        self._recorder = recorder
        self._translate = Translator(rows("chainer"), self._tensor, names=lambda _: ARGUMENTS)
        self._update_rules: dict[int, tuple[Any, int]] = {}
        """Update rules by id, and how often each had been applied when it was first seen."""

    def start(self) -> None:
        """Note the version of Chainer."""
        self._recorder.frameworks["chainer"] = chainer.__version__

    def finish(self) -> None:
        """Note the optimizers that updated parameters during the run."""
        applied = sorted({type(rule).__name__ for rule, before in self._update_rules.values() if rule.t > before})
        if applied:
            self._recorder.notes.append(
                f"parameters were updated by {', '.join(applied)}, for which Chainer does not call hooks; "
                "these operations are not counted"
            )

    def record(
        self,
        node: Any,
        native: str,
        values: Mapping[str, Sequence[Any]],
        watch: MethodWatch,
        phase: str,
        module: str,
        origin: Any,
    ) -> None:
        """Append the call of one function.

        Args:
            node: the node of Chainer's graph that ran the function.
            native: the full name to record it by.
            values: its input arrays, ``inputs``, and, of a backward pass, the ``gradients`` of its outputs.
            watch: the watch that holds what the function returned.
            phase: the phase of the call.
            module: the path of the link it belongs to.
            origin: the function whose backward pass runs it; None in the forward pass.
        """
        function = function_of(node)
        arguments = {"function": function, "origin": origin, **values}
        translation = self._translate(Native(native, arguments, watch.returned))
        inputs = tuple(map(self.arrays.operand, translation.inputs))
        outputs = tuple(map(self.arrays.result, translation.outputs))
        call = Call(
            layer=self._recorder.intern(translation.layer),
            type=native.partition("::")[2],
            native=native,
            module=module,
            phase=phase,
            inputs=inputs,
            outputs=outputs,
            storages=tuple(map(self.arrays.storage, (*translation.inputs, *translation.outputs))),
            parameters=self._parameter_ids(translation),
            saved=self._saved_ids(node, values["inputs"], watch.returned) if phase != "backward" else (),
            where=user_traceback("chainer") if self._recorder.tracebacks or not translation.has_row else "",
        )
        seconds = self._seconds(watch)
        calculator = self._recorder.native_calculators.get(native)
        if calculator is None:
            self._recorder.record(call, seconds=seconds)
            return
        try:
            cost = native_cost(calculator, function, values["inputs"], watch.returned)
        except CostError as error:
            self._recorder.record(call, failure=str(error), seconds=seconds)
        else:
            self._recorder.record(call, cost, seconds=seconds)

    def _seconds(self, watch: MethodWatch) -> float | None:
        """Return the duration of a call by the clock that was asked for; None if time is not measured."""
        clock = self._recorder.measure_time
        if clock is False:
            return None
        return watch.cpu_seconds if clock == CPU_TIME else watch.seconds

    def _tensor(self, value: Any, role: Role) -> Tensor | None:
        """Return the tensor of a value, in the role "param" only if it is a learned parameter."""
        found = tensor(value, role)
        if found is None or role == "state" or found.is_scalar:
            return found
        if array_of(value).dtype.kind not in "fc":
            return Tensor(found.shape, found.dtype)
        if role == "param" and not self.arrays.is_parameter(value):
            for link in self.links.outermost_and_innermost():
                self._add_parameters(link)
        if self.arrays.is_parameter(value):
            return Tensor(found.shape, found.dtype, "param")
        if role == "param" and (self.arrays.is_result(value) or self.links.running()):
            # computed, or an array of a link that is not a parameter, such as the ones in place of a missing gamma
            return Tensor(found.shape, found.dtype)
        return found

    def _add_parameters(self, link: Any) -> None:
        for parameter in link.params():
            if parameter.array is not None:
                self.arrays.add_parameter(parameter.array)
            if (rule := parameter.update_rule) is not None:
                self._update_rules.setdefault(id(rule), (rule, rule.t))

    def _add_inputs(self, values: Iterable[Any]) -> None:
        """Note the arrays that a model is called with, unless this run computed them."""
        for value in flatten(values):
            array = array_of(value)
            if is_array(array) and not self.arrays.is_result(array):
                identity = self.arrays.operand(array)
                if identity not in self._recorder.inputs:
                    self._recorder.inputs.append(identity)

    def _parameter_ids(self, translation: Translation) -> tuple[int, ...]:
        operands = zip(translation.layer.inputs.values(), translation.inputs, strict=True)
        return tuple(self.arrays.parameter(value) for operand, value in operands if operand.role == "param")

    def _saved_ids(self, node: Any, in_data: Sequence[Any], out_data: Sequence[Any]) -> tuple[int, ...]:
        """Return the operand ids of the arrays that the function retains for its backward pass."""
        if not chainer.config.enable_backprop:
            return ()
        retained = [in_data[i] for i in node._input_indexes_to_retain or ()]
        retained += [out_data[i] for i in node._output_indexes_to_retain or ()]
        return tuple(map(self.arrays.operand, retained))
