"""Modules of every library: parameters, modules, state, and no change to the model."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox
import haiku
import jax
import jax.numpy as jnp
import keras
import optax
import pytest
from flax import linen, nnx
from flax.training.train_state import TrainState

from costcore import Tensor, estimate
from costcore.registry import default_inputs

MACS = 2 * (4 * 8 + 8 * 3)
"""Two rows through linear layers of 4, 8 and 3 features."""

PARAMETERS = 4 * 8 + 8 + 8 * 3 + 3


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        x = linen.relu(linen.Dense(8)(x))
        x = linen.Dropout(0.5, deterministic=not train)(x)
        return linen.Dense(3, name="head")(x)


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.blocks = nnx.List([nnx.Linear(4, 8, rngs=rngs)])
        self.head = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        for block in self.blocks:
            x = nnx.relu(block(x))
        return self.head(x)


def in_haiku(x):
    return haiku.Linear(3, name="head")(jax.nn.relu(haiku.Linear(8)(x)))


class Equinox(equinox.Module):
    hidden: equinox.nn.Linear
    head: equinox.nn.Linear

    def __call__(self, x):
        return jax.vmap(lambda row: self.head(jax.nn.relu(self.hidden(row))))(x)


def in_equinox(key):
    return Equinox(equinox.nn.Linear(4, 8, key=key), equinox.nn.Linear(8, 3, key=key))


def in_keras():
    layers = [keras.layers.Dense(8, activation="relu", name="hidden"), keras.layers.Dense(3, name="head")]
    return keras.Sequential([keras.Input((4,)), *layers])


MODELS = {
    "linen": (Linen, {"Dense_0": "Dense", "head": "Dense"}),
    "nnx": (lambda: Nnx(nnx.Rngs(0)), {"blocks.0": "Linear", "head": "Linear"}),
    "nnx abstract": (lambda: nnx.eval_shape(lambda: Nnx(nnx.Rngs(0))), {"blocks.0": "Linear", "head": "Linear"}),
    "haiku": (lambda: haiku.transform(in_haiku), {"linear": "linear", "head": "head"}),
    "haiku without a key": (
        lambda: haiku.without_apply_rng(haiku.transform(in_haiku)),
        {"linear": "linear", "head": "head"},
    ),
    "equinox": (lambda: in_equinox(jax.random.key(0)), {"hidden": "Linear", "head": "Linear"}),
    "equinox abstract": (
        lambda: equinox.filter_eval_shape(in_equinox, jax.random.key(0)),
        {"hidden": "Linear", "head": "Linear"},
    ),
    "keras": (in_keras, {"hidden": "Dense", "head": "Dense"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_module_is_counted_with_its_parameters_and_modules(name):
    make, types = MODELS[name]
    report = estimate(make(), (2, 4), regroup=True)
    total = report.total_report
    assert (total["macs"], total["n_params"], total["n_params_model"]) == (MACS, PARAMETERS, PARAMETERS)
    # two linear layers onto their biases, and a relu
    assert total["flops"] == MACS + 2 * 8
    assert [call.module for call in report.trace.calls if call.layer.op == "linear"] == list(types)
    modules = report.trace.run.modules
    assert {path: modules[path].type for path in types} == types
    sizes = [sum(size for _, size in modules[path].own) for path in types]
    assert sizes == [4 * 8 + 8, 8 * 3 + 3]
    assert report.status == "complete"


@pytest.mark.parametrize("name", MODELS)
def test_training_a_module_counts_its_gradients(name):
    report = estimate(MODELS[name][0](), (2, 4), backward=True)
    # forward, both weights, and the input of the head
    assert report.total_report["macs"] == 2 * MACS + 2 * 8 * 3
    assert {call.phase for call in report.trace.calls} == {"forward", "backward"}


@nnx.jit
def step_in_nnx(model, optimizer, x, y):
    _, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    optimizer.update(model, gradients)


@nnx.jit
def step_of_both(optimizer, x, y):
    optimizer.update(nnx.grad(lambda model: jnp.mean((model(x) - y) ** 2))(optimizer.model))


@equinox.filter_jit
def step_in_equinox(model, x, y):
    gradients = equinox.filter_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    return equinox.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, gradients))


@jax.jit
def step_in_linen(state, x, y):
    gradients = jax.grad(lambda params: jnp.mean((state.apply_fn({"params": params}, x) - y) ** 2))(state.params)
    return state.apply_gradients(grads=gradients)


def train_state(_):
    model = Linen()
    params = model.init(jax.random.key(0), jnp.zeros((1, 4)))["params"]
    return [TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))]


STEPS = {
    "nnx": (step_in_nnx, lambda net: [net, nnx.Optimizer(net, optax.adam(1e-3), wrt=nnx.Param)], ""),
    "nnx both": (step_of_both, lambda net: [nnx.ModelAndOptimizer(net, optax.sgd(0.1))], "optimizer.model"),
    "equinox": (step_in_equinox, lambda _: [in_equinox(jax.random.key(0))], ""),
    "linen": (step_in_linen, train_state, ""),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_training_step_takes_models_as_arguments(name):
    step, make, root = STEPS[name]
    arguments = make(Nnx(nnx.Rngs(0)))
    before = [id(leaf) for leaf in jax.tree.leaves(arguments)]
    report = estimate(step, [*arguments, (2, 4), (2, 3)])
    total = report.total_report
    # forward, both weights, and the input of the head
    assert (total["macs"], total["n_params"]) == (2 * MACS + 2 * 8 * 3, PARAMETERS)
    assert set(report.by("phase")) == {"forward", "backward", "optimizer"}
    head = {path: costs["macs"] for path, costs in report.by("module").items() if path.endswith("head")}
    # forward, the weight and the input
    assert head == {f"{root}.head".strip("."): 3 * 2 * 8 * 3}
    assert before == [id(leaf) for leaf in jax.tree.leaves(arguments)]


def test_two_models_of_a_step_have_the_names_of_its_arguments():
    @nnx.jit
    def step(generator, critic, optimizer, z):
        optimizer.update(generator, nnx.grad(lambda generator: jnp.sum(critic(generator(z)) ** 2))(generator))

    generator, critic = nnx.Linear(4, 8, rngs=nnx.Rngs(0)), nnx.Linear(8, 1, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(generator, optax.sgd(0.1), wrt=nnx.Param)
    report = estimate(step, [generator, critic, optimizer, (2, 4)])
    macs = {path: costs["macs"] for path, costs in report.by("module").items() if path}
    # both forward; the input of the critic, and the weight of the generator
    assert macs == {"generator": 2 * 2 * 4 * 8, "critic": 2 * 2 * 8}
    assert report.total_report["n_params"] == 4 * 8 + 8 + 8 + 1


def test_an_object_that_is_two_arguments_is_one():
    layer = nnx.Linear(8, 8, rngs=nnx.Rngs(0))
    assert estimate(lambda a, b, x: a(b(x)), [layer, layer, (2, 8)]).total_report["n_params"] == 72


class Encoder(equinox.Module):
    """A module that cannot be called; its method can."""

    layer: equinox.nn.Linear

    def encode(self, x):
        return jax.vmap(self.layer)(x)

    def encode_row(self, x):
        return self.layer(x)


class LinenEncoder(linen.Module):
    def setup(self):
        self.layer = linen.Dense(8)

    def encode(self, x):
        return self.layer(x)


ENCODER = Encoder(equinox.nn.Linear(4, 8, key=jax.random.key(0)))

METHODS = {
    "equinox": (ENCODER.encode, (2, 4)),
    "equinox in a function": (lambda x: ENCODER.encode(x), (2, 4)),
    "equinox as an argument": (lambda model, x: model.encode(x), [ENCODER, (2, 4)]),
    "equinox vmapped": (jax.vmap(ENCODER.encode_row), (2, 4)),
    "equinox jitted": (jax.jit(ENCODER.encode), (2, 4)),
    "linen": (LinenEncoder().encode, (2, 4)),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_models(name):
    report = estimate(*METHODS[name])
    assert {path: costs["macs"] for path, costs in report.by("module").items() if costs["macs"]} == {"layer": 2 * 32}
    assert report.total_report["n_params"] == 4 * 8 + 8


GLOBAL = in_equinox(jax.random.key(0))

BY_NAME = {"model": GLOBAL}

HOLDER = SimpleNamespace(model=GLOBAL)

CLOSURES = {
    "vmap": lambda net: jax.vmap(lambda x: GLOBAL.head(jax.nn.relu(GLOBAL.hidden(x)))),
    "jit": lambda net: jax.jit(lambda x: GLOBAL(x)),
    "filter_jit": lambda net: equinox.filter_jit(lambda x: GLOBAL(x)),
    "partial": lambda net: partial(lambda model, x: model(x), GLOBAL),
    "nnx": lambda net: lambda x: net(x),
    "nnx in vmap": lambda net: jax.vmap(net),
    "method": lambda net: net.__call__,
    "dict": lambda net: lambda x: BY_NAME["model"](x),
    "object": lambda net: lambda x: HOLDER.model(x),
}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", CLOSURES)
def test_models_that_a_function_closes_over_have_their_parameters(name, backward):
    report = estimate(CLOSURES[name](Nnx(nnx.Rngs(0))), (2, 4), backward=backward)
    total = report.total_report
    assert (total["macs"], total["n_params"]) == (2 * MACS + 48 if backward else MACS, PARAMETERS)
    heads = [costs["macs"] for path, costs in report.by("module").items() if path == "head"]
    assert heads == [48 * 3 if backward else 48]
    assert not any("closes over" in note for note in report.notes)


def test_state_that_a_function_closes_over_cannot_change():
    norm = nnx.BatchNorm(4, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match="Pass the model as an argument of the function"):
        estimate(lambda x: norm(x), (2, 4))
    assert estimate(lambda norm, x: norm(x), [norm, (2, 4)]).total_report["n_params"] == 8


def test_arguments_by_name_reach_the_module():
    report = estimate(Linen(), {"x": (2, 4), "train": True})
    assert any(call.module == "Dropout_0" for call in report.trace.calls)
    assert report.total_report["macs"] == MACS


@pytest.mark.parametrize("train", [False, True])
def test_statistics_of_a_batch_norm_are_not_parameters(train):
    report = estimate(linen.BatchNorm(use_running_average=not train), (6, 4), backward=train)
    assert report.total_report["n_params"] == 8
    assert report.trace.run.modules[""].buffers == 8


def normalized_in_haiku(x, is_training):
    return haiku.BatchNorm(True, True, 0.9)(x, is_training)


@pytest.mark.parametrize("is_training", [False, True])
def test_state_of_haiku_is_made_in_training(is_training):
    net = haiku.transform_with_state(normalized_in_haiku)
    report = estimate(net, {"x": (6, 4), "is_training": is_training})
    assert report.total_report["n_params"] == 8
    assert report.status == "complete"


def test_no_module_is_changed():
    model = Nnx(nnx.Rngs(0))
    call, before = nnx.Linear.__call__, jax.tree.leaves(nnx.state(model))
    estimate(model, (2, 4), backward=True)
    assert nnx.Linear.__call__ is call
    assert all(a is b for a, b in zip(before, jax.tree.leaves(nnx.state(model)), strict=True))


def test_a_failing_module_leaves_its_class_as_it_was():
    call = nnx.Linear.__call__
    with pytest.raises(ValueError, match="Nnx: tracing raised"):
        estimate(Nnx(nnx.Rngs(0)), (2, 5))
    assert nnx.Linear.__call__ is call


def test_a_module_used_twice_is_counted_twice_and_its_parameters_once():
    class Twice(linen.Module):
        @linen.compact
        def __call__(self, x):
            layer = linen.Dense(4)
            return layer(layer(x))

    total = estimate(Twice(), (2, 4)).total_report
    assert (total["macs"], total["n_params"]) == (2 * 2 * 16, 20)


def test_parameters_of_a_function_are_those_of_its_argument():
    def run(theta, x):
        return jnp.take(theta["table"], x, axis=0) @ theta["w"]

    report = estimate(run, [{"table": (10, 4), "w": (4, 3)}, Tensor((2, 5), "int32")], params=0)
    assert report.total_report["n_params"] == 10 * 4 + 4 * 3
    assert {call.layer.op for call in report.trace.calls} >= {"embedding", "linear"}


WEIGHTS = {"w": (8, 16), "b": (16,)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def chain(layers, x):
    for w, b in layers:
        x = x @ w + b
    return x


@pytest.mark.parametrize(
    ("function", "inputs", "n_params", "assumed"),
    [
        (dense, [WEIGHTS, (4, 8)], 8 * 16 + 16, "the argument p of dense"),
        (jax.jit(dense), [WEIGHTS, (4, 8)], 8 * 16 + 16, "the argument p of dense"),
        (
            jax.grad(lambda p, x: jnp.sin(dense(p, x)).sum()),
            [WEIGHTS, (4, 8)],
            8 * 16 + 16,
            "the argument p of <lambda>",
        ),
        (chain, [[[(8, 8), (8,)]] * 3, (2, 8)], 3 * 72, "the argument layers of chain"),
        (lambda batch, scale: batch["x"] * scale, [{"x": (4, 8)}, (8,)], 0, ""),
        (lambda x, y: x["a"] + y, [{"a": (4, 8)}, (8,)], 0, ""),
        (lambda p: p["a"] * 2, [{"a": (4, 8)}], 0, ""),
        (lambda p, scale: p["a"] * scale, [{"a": (4, 8), "n": Tensor((2,), "int32")}, (8,)], 0, ""),
    ],
)
def test_a_tree_of_arrays_before_other_arrays_is_assumed_to_be_parameters(function, inputs, n_params, assumed):
    report = estimate(function, inputs)
    assert report.total_report["n_params"] == n_params
    assert [each.what.startswith(assumed) for each in report.assumptions] == [True] * bool(assumed)


def of_variables(model):
    variables = jax.eval_shape(lambda key: model.init(key, jnp.zeros((2, 4))), jax.random.key(0))
    return model.apply, [variables, (2, 4)]


def jitted(model):
    apply, inputs = of_variables(model)
    return jax.jit(lambda v, x: apply(v, x) * 2), inputs


def training_step(model):
    def step(params, opt_state, x):
        gradients = jax.grad(lambda params: apply({"params": params}, x).sum())(params)
        updates, opt_state = optimizer.update(gradients, opt_state)
        return optax.apply_updates(params, updates), opt_state

    apply, (variables, shape) = of_variables(model)
    optimizer = optax.adam(1e-3)
    state = jax.eval_shape(optimizer.init, variables["params"])
    return step, {"params": variables["params"], "opt_state": state, "x": shape}


@pytest.mark.parametrize("make", [of_variables, jitted, training_step])
def test_params_and_variables_are_the_parameters_of_a_function(make):
    function, inputs = make(Linen())
    report = estimate(function, inputs)
    assert {path: len(module.own) for path, module in report.trace.run.modules.items()} == {
        "": 0,
        "Dense_0": 2,
        "head": 2,
    }


class Line:
    """An object of the user: 12 + 3 parameters."""

    def __init__(self, features=4):
        self.weight, self.bias = jnp.ones((features, 3)), jnp.zeros(3)

    def __call__(self, x):
        return self.encode(x) + self.bias

    def encode(self, x):
        return x @ self.weight


@jax.tree_util.register_pytree_node_class
class Tree(Line):
    """A pytree without names."""

    def tree_flatten(self):
        return (self.weight, self.bias), None

    @classmethod
    def tree_unflatten(cls, _, children):
        made = cls()
        made.weight, made.bias = children
        return made


class Pair:
    """Two layers, in a list."""

    def __init__(self, kind):
        self.layers = [kind(), kind(3)]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class WithParams:
    """A network beside its parameters."""

    def __init__(self):
        self.net = Linen()
        self.state = self.net.init(jax.random.key(0), jnp.zeros((2, 4)))

    def __call__(self, x):
        return self.net.apply(self.state, x)


@pytest.mark.parametrize("make", [Line, Tree])
@pytest.mark.parametrize(
    ("use", "parameters"),
    [
        (lambda model: (model, [(2, 4)]), 15),
        (lambda model: (model.encode, [(2, 4)]), 12),
        (lambda model: (lambda x: model(x), [(2, 4)]), 15),
        (lambda model: (jax.jit(lambda x: model(x)), [(2, 4)]), 15),
    ],
)
def test_objects_of_any_class_are_models(make, use, parameters):
    model, inputs = use(make())
    report = estimate(model, inputs, backward=True)
    assert report.total_report["macs"] == 2 * 24  # forward, and the gradient of the weight
    assert report.total_report["n_params"] == parameters


@pytest.mark.parametrize("kind", [Line, Tree])
def test_rows_of_objects_have_the_names_of_their_attributes(kind):
    report = estimate(Pair(kind), [(2, 4)])
    assert {path: costs["macs"] for path, costs in report.by("module").items() if path} == {
        "layers.0": 2 * 12,
        "layers.1": 2 * 9,
    }
    assert report.total_report["n_params"] == 15 + 12


def test_an_object_that_holds_variables_of_flax_has_its_scopes():
    modules = estimate(WithParams(), [(2, 4)]).trace.run.modules
    assert {path: len(module.own) for path, module in modules.items()} == {"": 0, "Dense_0": 2, "head": 2}


def test_a_training_step_takes_pytrees_of_any_class():
    def step(model, x):
        return jax.tree.map(lambda w, g: w - g, model, jax.grad(lambda model: model(x).sum())(model))

    report = estimate(step, [Tree(), (2, 4)])
    assert (report.total_report["macs"], report.total_report["n_params"]) == (24, 15)
    assert report.by("phase")["optimizer"]["flops"] == 15


def test_parameters_in_a_closure_are_those_of_the_function():
    model, x = Linen(), (2, 4)
    variables = model.init(jax.random.key(0), jnp.zeros(x))
    params = {"w": jnp.ones((4, 3))}
    assert estimate(lambda x: model.apply(variables, x), x, backward=True).total_report["n_params"] == sum(
        leaf.size for leaf in jax.tree.leaves(variables)
    )
    assert estimate(lambda x: x @ params["w"], x).total_report["n_params"] == 12


class TrainingState(NamedTuple):
    params: Any
    opt_state: Any


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (TrainingState, lambda state: state),
        (lambda params, opt_state: {"params": params, "opt_state": opt_state}, lambda state: TrainingState(**state)),
    ],
)
def test_parameters_in_the_state_of_a_training_step(make, read):
    net = haiku.without_apply_rng(haiku.transform(lambda x: haiku.Linear(3, name="line")(x)))
    optimizer = optax.adam(1e-3)

    def step(state, x):
        params, opt_state = read(state)
        gradients = jax.grad(lambda params: net.apply(params, x).sum())(params)
        updates, opt_state = optimizer.update(gradients, opt_state)
        return make(optax.apply_updates(params, updates), opt_state)

    params = net.init(jax.random.key(0), jnp.zeros((2, 4)))
    report = estimate(step, [make(params, optimizer.init(params)), (2, 4)])
    assert report.total_report["n_params"] == 4 * 3 + 3
    assert {path: costs["macs"] for path, costs in report.by("module").items() if path} == {"line": 24}


def test_collections_beside_the_parameters_are_state():
    class Normalized(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.BatchNorm(use_running_average=True)(linen.Dense(3)(x))

    function, inputs = of_variables(Normalized())
    assert estimate(function, inputs).total_report["n_params"] == 4 * 3 + 3 + 2 * 3  # weight, bias, scale and shift


def test_variables_of_a_split_model_are_its_parameters():
    class Normalized(nnx.Module):
        def __init__(self):
            self.line, self.norm = nnx.Linear(4, 3, rngs=nnx.Rngs(0)), nnx.BatchNorm(3, rngs=nnx.Rngs(0))

        def __call__(self, x):
            return self.norm(self.line(x))

    graph, state = nnx.split(Normalized())
    report = estimate(lambda state, x: nnx.merge(graph, state)(x), [state, (2, 4)], backward=True)
    assert report.total_report["n_params"] == 4 * 3 + 3 + 2 * 3
    assert report.total_report["macs"] == 2 * 2 * 4 * 3  # forward, and the gradient of the weight


def test_the_traceback_of_a_layer_of_a_library_is_that_of_the_library():
    report = estimate(linen.Sequential([linen.Dense(3)]), (2, 4), tracebacks=True)
    assert "linear.py" in report.trace.calls[0].where


def test_stacked_parameters_of_a_scan_count_completely():
    class Deep(linen.Module):
        @linen.compact
        def __call__(self, x):
            block = linen.scan(
                lambda module, carry, _: (linen.Dense(4)(carry), None),
                variable_axes={"params": 0},
                split_rngs={"params": True},
                length=6,
            )
            return block(self, x, None)[0]

    total = estimate(Deep(), (2, 4)).total_report
    assert (total["macs"], total["n_params"]) == (6 * 2 * 16, 6 * 20)


def test_a_model_of_keras_that_states_its_sizes_needs_no_inputs():
    image = keras.Input((8, 8, 3))
    model = keras.Model(image, keras.layers.Dense(4)(keras.layers.Flatten()(image)))
    usual = default_inputs(model, "net.py:make")
    assert usual.inputs.shape == (1, 8, 8, 3)
    assert estimate(model, usual.inputs).total_report["macs"] == 8 * 8 * 3 * 4
    unknown = keras.Input((None, 3))
    assert default_inputs(keras.Model(unknown, keras.layers.Dense(4)(unknown)), "") is None
    assert default_inputs(lambda x: x, "") is None


def two_inputs_in_keras():
    a, b = keras.Input((8,), name="a"), keras.Input((4,), name="b")
    joined = keras.layers.Concatenate()([keras.layers.Dense(6, name="first")(a), b])
    return keras.Model([a, b], keras.layers.Dense(3, name="last")(joined))


def recurrent_in_keras():
    tokens = keras.Input((20,), dtype="int32", name="tokens")
    embedded = keras.layers.Embedding(100, 8)(tokens)
    return keras.Model(tokens, keras.layers.Dense(2)(keras.layers.Bidirectional(keras.layers.LSTM(16))(embedded)))


# the same as on PyTorch: a state of 16 and four gates, 20 steps each way
FILES = {
    "two inputs": (two_inputs_in_keras, 8 * 6 + (6 + 4) * 3),
    "recurrent": (recurrent_in_keras, 2 * 20 * (8 + 16) * 4 * 16 + 2 * 16 * 2),
    "resnet": (lambda: keras.applications.ResNet50(weights=None), 3_857_973_248),
}


@pytest.mark.filterwarnings("ignore:.*assumption:costcore.CostWarning")
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_keras_counts_as_its_model(name, tmp_path):
    make, macs = FILES[name]
    model = make()
    model.save(tmp_path / "net.keras")
    report = estimate(tmp_path / "net.keras")
    live = estimate(model, default_inputs(model, "").inputs)
    assert (report.total_report["macs"], live.total_report["macs"]) == (macs, macs)
    assert report.layer_report == live.layer_report
    assert [call.module for call in report.trace.calls] == [call.module for call in live.trace.calls]
    assert report.total_report["n_params"] == sum(math.prod(each.shape) for each in model.trainable_weights)
    assert report.status == "assumed"


def test_several_inputs_of_keras_by_position_or_name():
    model = two_inputs_in_keras()
    for inputs in ([(5, 8), (5, 4)], {"a": (5, 8), "b": (5, 4)}):
        assert estimate(model, inputs).total_report["macs"] == 5 * FILES["two inputs"][1]


def test_frozen_layers_of_keras_are_parameters_without_gradients():
    model = two_inputs_in_keras()
    model.get_layer("last").trainable = False
    report = estimate(model, [(5, 8), (5, 4)], backward=True)
    # both layers forward; backward the input of the last one, which is frozen, and the weight of the first
    assert report.total_report["macs"] == 5 * (48 + 30) + 5 * 30 + 5 * 48
    assert report.total_report["n_params"] == 8 * 6 + 6 + 10 * 3 + 3
