"""Programs that are not layers of a table: loops, branches, constants, open sizes, unknown calls, damage."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from exported import FOLDER, exported
from jax import export, lax

from costcore import CostError, CostWarning, Tensor, estimate, fit
from costcore.cli.main import main
from costcore.graphs import MOST_NODES


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="net.mlir"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return to_file


def function(body, arguments="%x: tensor<2x3xf32>", result="tensor<2x3xf32>"):
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n}}\n"


def types(report):
    return [call.layer.op for call in report.trace.calls]


def test_a_loop_runs_as_often_as_it_counts():
    def run(params, x):
        return lax.scan(lambda carried, w: (jnp.tanh(carried @ w), None), x, params)[0]

    report = estimate(exported(run, [(5, 8, 8), (4, 8)], [0]))
    assert report.total_report["macs"] == 5 * 4 * 8 * 8
    assert report.total_report["n_params"] == 5 * 8 * 8
    assert report.status == "complete"


def test_a_loop_that_depends_on_data_is_a_symbol_or_what_is_given():
    def run(x):
        return lax.while_loop(lambda y: y.sum() < 9.0, lambda y: y @ y, x)

    path = exported(run, [(4, 4)])
    assert str(estimate(path).total_report["macs"]) == "64*trips_1"
    report = estimate(path, trips=3)
    assert report.total_report["macs"] == 3 * 4**3
    assert report.status == "assumed"


def test_of_a_branch_the_most_expensive_side_is_counted():
    report = estimate(exported(lambda x: lax.cond(x.sum() > 0, lambda y: y @ y, lambda y: y + 1, x), [(4, 4)]))
    assert report.total_report["macs"] == 4**3
    assert report.status == "assumed"


def test_constants_that_differ_are_parameters(write):
    body = """%w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
      %zeros = stablehlo.constant dense<0.0> : tensor<2x2xf32>
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
      %z = stablehlo.maximum %y, %zeros : tensor<2x2xf32>
      return %z : tensor<2x2xf32>"""
    report = estimate(write(function(body, result="tensor<2x2xf32>")), regroup=True)
    assert types(report) == ["linear", "relu"]
    assert (report.total_report["macs"], report.total_report["n_params"]) == (2 * 3 * 2, 6)


def test_parameters_may_be_named_or_numbered():
    path = exported(lambda w, x: x @ w, [(3, 5), (2, 3)])
    assert estimate(path).total_report["n_params"] == 0
    for params in (0, "x0", [0], ["x0"]):
        report = estimate(path, params=params)
        assert (report.total_report["n_params"], types(report)) == (15, ["linear"])
    with pytest.raises(
        ValueError, match=r"no argument is 'w' \(expected 0 to 1, or the beginning of a name such as 'x0'"
    ):
        estimate(path, params="w")


def test_the_command_line_reads_values(capsys):
    path = exported(lambda w, x: lax.while_loop(lambda y: y.sum() < 9.0, lambda y: y @ w, x), [(4, 4), (4, 4)])
    assert main([str(path), "--params", "0", "--trips", "3", "--format", "csv", "--columns", "name,macs,n_params"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"total,{3 * 4**3},{4 * 4}"
    with pytest.raises(SystemExit) as left:
        main([str(path), "--trips", "many"])
    assert left.value.code == 2
    assert "argument --trips: 'many' is invalid" in capsys.readouterr().err


def test_the_gradient_of_max_pooling_reads_every_window_again():
    def loss(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()

    report = estimate(exported(jax.grad(loss), [(1, 4, 4, 1)]))
    (call,) = (call for call in report.trace.calls if call.type == "select_and_scatter_add")
    # four windows of four elements: three comparisons find the largest, one addition puts the gradient there
    assert (call.layer.attrs["kernel"], report.total_report["flops"]) == ((1, 2, 2, 1), 4 * (3 + 1))


def test_open_sizes_are_given_by_inputs():
    batch = export.symbolic_shape("batch")[0]
    shapes = (jax.ShapeDtypeStruct((8, 4), jnp.float32), jax.ShapeDtypeStruct((batch, 8), jnp.float32))
    program = export.export(jax.jit(lambda params, x: jnp.tanh(x @ params)))(*shapes)
    path = Path(FOLDER.name, "open.mlirbc")
    path.write_bytes(program.mlir_module_serialized)
    assert estimate(path, (6, 8)).total_report["macs"] == 6 * 8 * 4
    assert estimate(path, {"x": (6, 8)}).total_report["macs"] == 6 * 8 * 4
    # sizes with names
    report = estimate(path, ("batch", 8))
    assert str(report.total_report["macs"]) == "32*batch"
    assert report.subs(batch=6).total_report == estimate(path, (6, 8)).total_report
    with pytest.raises(CostError, match=r"open.mlirbc: .*open sizes.*Give the shapes of its inputs, numbers or names"):
        estimate(path)
    with pytest.raises(CostError, match=r"2 inputs for 1 arguments \(x\)"):
        estimate(path, [(6, 8), (6, 8)])
    with pytest.raises(CostError, match=r"no argument is named 'y' \(expected x\)"):
        estimate(path, {"y": (6, 8)})


def test_the_lines_of_a_call_are_those_of_the_program(write):
    named = """%y = stablehlo.tanh %x : tensor<2x3xf32>
        loc("jit(f)/tanh"(callsite("layer"("net.py":5:11) at "run"("train.py":8:1))))
      %z = stablehlo.exponential %y : tensor<2x3xf32>
      return %z : tensor<2x3xf32>"""
    calls = estimate(write(function(named)), tracebacks=True).trace.calls
    assert [call.where for call in calls] == [
        '  File "train.py", line 8, in run\n  File "net.py", line 5, in layer\n',
        "",
    ]

    def layer(x):
        return jnp.tanh(x)

    (call,) = estimate(exported(layer, [(2, 3)]), tracebacks=True).trace.calls
    last = call.where.splitlines()[-1]
    assert f'File "{__file__}", line {layer.__code__.co_firstlineno + 1}' in last and last.endswith("layer")


def test_an_unknown_call_is_named_with_its_shapes(write):
    body = """%y = stablehlo.custom_call @my_kernel(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>"""
    with pytest.warns(CostWarning, match="no calculator for 'jax::custom_call:my_kernel'"):
        report = estimate(write(function(body)))
    assert report.status == "partial"
    assert "custom_call:my_kernel" in str(report.ignored_layers)
    assert "(2, 3)" in str(report.ignored_layers)


LINEAR_ALGEBRA = {
    "lu": (lambda x: lax.linalg.lu(x)[0], "lu_factor"),
    "qr": (jnp.linalg.qr, "qr", "qr_factor", "householder_product"),
    "eigh": (jnp.linalg.eigh, "symmetric_eigen"),
    "svd": (jnp.linalg.svd, "singular_values"),
    "singular values": (lambda x: jnp.linalg.svd(x, compute_uv=False), "singular_values"),
    "inverse": (jnp.linalg.inv, "lu_factor", "triangular_solve"),
}


@pytest.mark.parametrize("name", LINEAR_ALGEBRA)
def test_calls_of_lapack_cost_what_jax_computes_with_them(name):
    """JAX exports factorizations as ``custom_call @lapack_sgetrf_ffi`` and the like."""
    function, *ops = LINEAR_ALGEBRA[name]

    def flops(report):
        return sum(call["flops"] for call in report.layer_report.values() if call["op"] in ops)

    report = estimate(exported(function, [(3, 8, 8)]))
    assert report.status == "complete" and flops(report)
    assert flops(report) == flops(estimate(function, ((3, 8, 8),)))


def test_a_mark_of_pytorch_and_operators_of_other_dialects(write):
    body = """%y = stablehlo.custom_call @mark_tensor(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %z = "acme.twist"(%y) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      return %z : tensor<2x3xf32>"""
    with pytest.warns(CostWarning, match="no calculator for 'jax::acme.twist'"):
        report = estimate(write(function(body)))
    assert [each["type"] for each in report.ignored_layers.values()] == ["acme.twist"]


def test_a_condition_may_call_what_returns_nothing(write):
    body = """%y = stablehlo.while(%a = %x) : tensor<2x3xf32>
      cond {
        "acme.log"() : () -> ()
        %t = stablehlo.constant dense<true> : tensor<i1>
        stablehlo.return %t : tensor<i1>
      } do {
        %b = stablehlo.tanh %a : tensor<2x3xf32>
        stablehlo.return %b : tensor<2x3xf32>
      }
      return %y : tensor<2x3xf32>"""
    assert "trips_1" in str(estimate(write(function(body))).total_report["flops"])


def test_what_one_of_several_devices_computes(write):
    """Rows are divided among 4 devices: each multiplies 2 x 8 by 8 x 5."""
    text = """sdy.mesh @mesh = <["d"=4]>
    func.func private @only(%x: tensor<8x8xf32>, %w: tensor<8x5xf32>) -> tensor<8x5xf32> {
      %y = sdy.manual_computation(%x, %w) in_shardings=[<@mesh, [{"d"}, {}]>, <@mesh, [{}, {}]>]
        out_shardings=[<@mesh, [{"d"}, {}]>] manual_axes={"d"} (%a: tensor<2x8xf32>, %b: tensor<8x5xf32>) {
        %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
          : (tensor<2x8xf32>, tensor<8x5xf32>) -> tensor<2x5xf32>
        sdy.return %c : tensor<2x5xf32>
      } : (tensor<8x8xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
      return %y : tensor<8x5xf32>
    }"""
    report = estimate(write(text))
    assert (report.total_report["macs"], report.status) == (2 * 8 * 5, "complete")


def test_an_index_of_the_largest_element_is_a_search():
    assert "argmax" in types(estimate(exported(lambda x: jnp.argmax(x, 1), [(4, 8)])))


def test_communication_states_its_group(write):
    body = """%y = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>"""
    report = estimate(write(function(body)))
    assert types(report) == ["all_reduce"]
    assert report.trace.calls[0].layer.attrs["group_size"] == 4


def test_batch_normalization_of_tensorflow(write):
    vectors = ", ".join(f"%{name}: tensor<3xf32>" for name in "wbmv")
    operands = ", ".join(["tensor<2x3xf32>", *["tensor<3xf32>"] * 4])
    body = f"""%y = "stablehlo.batch_norm_inference"(%x, %w, %b, %m, %v)
        <{{epsilon = 0.001 : f32, feature_index = 1 : i64}}> : ({operands}) -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>"""
    report = estimate(write(function(body, f"%x: tensor<2x3xf32>, {vectors}")), params=[1, 2])
    assert types(report) == ["batch_norm"]
    assert report.total_report["n_params"] == 6


def test_a_function_that_calls_itself_is_an_error(write):
    body = "%y = call @main(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>\nreturn %y : tensor<2x3xf32>"
    with pytest.raises(CostError, match="call each other more than"):
        estimate(write(function(body)))


def test_functions_that_expand_without_end_are_an_error(write):
    parts = ["func.func private @f0(%x: tensor<2xf32>) -> tensor<2xf32> {\nreturn %x : tensor<2xf32>\n}\n"]
    for i in range(1, 25):
        calls = f"%a = call @f{i - 1}(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
        calls += f"%b = call @f{i - 1}(%a) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %b : tensor<2xf32>"
        parts.append(f"func.func private @f{i}(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{calls}\n}}\n")
    text = "".join(parts).replace("private @f24", "public @main")
    with pytest.raises(CostError, match=f"expands to more than {MOST_NODES:,} operations"):
        estimate(write(text))


TWO = "".join(
    f"""func.func @{name}(%a: tensor<{rows}x{n}xf32>, %b: tensor<{n}x{n}xf32>) -> tensor<{rows}x{n}xf32> {{
      %y = call @product{name}(%a, %b) : (tensor<{rows}x{n}xf32>, tensor<{n}x{n}xf32>) -> tensor<{rows}x{n}xf32>
      return %y : tensor<{rows}x{n}xf32>
    }}
    func.func private @product{name}(%a: tensor<{rows}x{n}xf32>, %b: tensor<{n}x{n}xf32>) -> tensor<{rows}x{n}xf32> {{
      %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<{rows}x{n}xf32>, tensor<{n}x{n}xf32>) -> tensor<{rows}x{n}xf32>
      return %y : tensor<{rows}x{n}xf32>
    }}
    """
    for name, rows, n in (("small", 2, 2), ("large", 200, 200), ("open", "?", 8))
)
"""A program with three public functions and no ``main``."""


def test_of_several_public_functions_one_is_chosen(write, capsys):
    path = write(TWO)
    for arguments in ([], ["--tree"]):
        assert main([str(path), *arguments]) == 1
        assert capsys.readouterr().err == (
            f"costcore: {path}: the program has 3 public functions and no main (small, large, open). "
            "Choose one with function='small' (--function small)\n"
        )
    macs = {"small": 2**3, "large": 200**3, "productlarge": 200**3}
    for name, n in macs.items():
        assert estimate(path, function=name).total_report["macs"] == n
        assert main([str(path), "--function", name, "--format", "csv", "--columns", "macs", "--unit", "none"]) == 0
        assert capsys.readouterr().out.split()[-1] == str(n)
    assert estimate(path, [(5, 8), (8, 8)], function="open").total_report["macs"] == 5 * 8 * 8
    with pytest.raises(CostError, match=r"unknown function 'smal' \(expected .*\). Did you mean 'small'\?"):
        estimate(path, function="smal")
    assert estimate(write(TWO.replace("@small", "@main"))).total_report["macs"] == 2**3


@pytest.mark.parametrize(
    ("config", "operands", "result", "macs"),
    [
        ("bxy,bijy->bijx", [(8, 2, 6), (8, 5, 3, 6)], (8, 5, 3, 2), 8 * 5 * 3 * 2 * 6),
        ("ij,jk->ik", [(4, 5), (5, 6)], (4, 6), 4 * 5 * 6),
        ("ij,jk->ik", [(4, 5), (5, 6)], ("?", "?"), 4 * 5 * 6),
        ("ij,j->i", [(4, 5), (5,)], (4,), 4 * 5),
        (",ii->i", [(), (6, 6)], (6,), 0),
        ("ij->i", [(4, 5)], (4,), 0),
    ],
)
def test_einsum_is_counted_as_its_equation_says(write, config, operands, result, macs):
    def tensor(shape):
        return f"tensor<{'x'.join(map(str, [*shape, 'f32']))}>"

    names = ", ".join(f"%x{i}" for i in range(len(operands)))
    arguments = ", ".join(f"%x{i}: {tensor(shape)}" for i, shape in enumerate(operands))
    name = "einsum" if len(operands) == 2 else "unary_einsum"
    of = f"({', '.join(map(tensor, operands))}) -> {tensor(result)}"
    body = f'%y = "stablehlo.{name}"({names}) {{einsum_config = "{config}"}} : {of}\nreturn %y : {tensor(result)}'
    report = estimate(write(function(body, arguments, tensor(result))))
    assert (report.total_report["macs"], report.status) == (macs, "complete")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no public function"),
        (b"hello", "is not a StableHLO program: "),
        (b"\xff\xfe\x00", "neither a text nor a portable artifact"),
        (b"ML\xefR\x0d", "is not a StableHLO program: "),
        (b"(" * 1000, "nests brackets more than 200 deep"),
        (b"func.func @main() -> tensor<f32> {\n%a = foo.bar : tensor<f32>\nreturn %a : tensor<f32>\n}", "foo"),
    ],
)
def test_damage_is_a_sentence_that_names_the_file(tmp_path, capfd, content, message):
    path = tmp_path / "damaged.mlir"
    path.write_bytes(content)
    with pytest.raises(CostError, match=message) as raised:
        estimate(path)
    assert "damaged.mlir" in str(raised.value)
    assert capfd.readouterr().err == ""


def test_names_that_are_no_text_do_not_end_the_process(write):
    body = '%y = "stablehlo.\\FF\\FE"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>\nreturn %y : tensor<2x3xf32>'
    with pytest.raises(CostError, match="is not a StableHLO program"):
        estimate(write(function(body)))
    named = '%y = stablehlo.abs %x : tensor<2x3xf32> loc("caf\\C3\\A9/abs")\nreturn %y : tensor<2x3xf32>'
    assert {call.module for call in estimate(write(function(named))).trace.calls} == {"café"}


def test_wide_numbers_stay_wide():
    with jax.enable_x64(True):
        path = exported(lambda x: x @ x, [Tensor((4, 4), "float64")])
    assert estimate(path).total_report["mwrite"] == 4 * 4 * 8
    assert jnp.ones(2, "int32").dtype == "int32"
    assert not jax.config.jax_enable_x64


def test_a_verdict_is_true_to_the_byte(capsys):
    """Values of 4 * 16 numbers, two at a time, and 8 * 16 weights and 16 biases, of 4 bytes."""
    path = str(Path(__file__).parent / "data" / "encoder.mlir")
    sram, flash = 2 * 4 * 16 * 4, (8 * 16 + 16) * 4
    assert main(["fit", path, f"sram={sram}B,flash={flash}B"]) == 0
    for memory, nbytes in (("sram", sram), ("flash", flash)):
        capsys.readouterr()
        assert main(["fit", path, f"{memory}={nbytes - 1}B"]) == 1
        assert f"exceeds {memory} by 1 B" in capsys.readouterr().out


def test_sizes_that_are_arguments_need_values(write):
    """So did JAX export open sizes before it read them off the shapes."""
    body = """%n = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
      %c = stablehlo.constant dense<8> : tensor<1xi32>
      %s = stablehlo.concatenate %n, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %y = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> tensor<?x8xf32>
      %z = stablehlo.add %y, %x : tensor<?x8xf32>
      return %z : tensor<?x8xf32>"""
    path = write(function(body, "%arg0: tensor<i32>, %x: tensor<?x8xf32>", "tensor<?x8xf32>"))
    for inputs in ([4, (4, 8)], {"arg0": 4, "arg1": (4, 8)}):
        assert estimate(path, inputs).total_report["flops"] == 4 * 8
    with pytest.raises(CostError, match="the values of arguments that are sizes, such as --input arg0:=8"):
        estimate(path, [(), (4, 8)])
    for wrong in (2**40, -(2**31), 1.5):
        with pytest.raises(CostError):
            estimate(path, [wrong, (4, 8)])
    with pytest.raises(CostError, match=r"the argument arg1 is tensor<\?x8xf32>, not the integer 3"):
        estimate(path, [4, 3])


def test_open_sizes_need_numbers(write):
    body = "%y = stablehlo.tanh %x : tensor<?x8xf32>\nreturn %y : tensor<?x8xf32>"
    path = write(function(body, "%x: tensor<?x8xf32>", "tensor<?x8xf32>"))
    assert fit(path, (4, 8), "256 B sram").needs == {"sram": 2 * 4 * 8 * 4}
    assert "sizes depend on batch: state numbers" in str(fit(path, ("batch", 8), "256 B sram"))
