import io
import json

import pytest
from sympy import Symbol

from costcore import CostError, compare
from tests.core.given_costs import Step, dense, net, relu
from tests.work import at_most

BLOCKS = (dense("a"), relu("a"), dense("b"), relu("b"))


def norm(module, width=4):
    """Return a batch norm: one fma per element."""
    weights = {f"{module}.scale": width, f"{module}.shift": width}
    return Step("batch_norm", module, fma=width, mread=12 * width, mwrite=4 * width, shape=(1, width), weights=weights)


@pytest.mark.parametrize("by", [None, "module", "order"])
def test_a_report_against_itself_is_empty(by):
    report = net(*BLOCKS)
    found = compare(report, report, by=by)
    assert found.equal
    assert found.differences == found.moved == found.notes == []
    assert all(delta.equal for delta in found.totals.values())
    assert found.summary == [
        "MACs: equal, 32",  # 2 × 4²
        "FLOPs: equal, 40",  # 32 fma + 2 × 4
        "parameters: equal, 32",
        "bytes read and written: equal, 256",  # 2 × (80 + 16) + 2 × (16 + 16)
    ]


def test_a_changed_call_has_old_new_difference_and_ratio():
    found = compare(net(*BLOCKS), net(dense("a"), relu("a"), dense("b", 8), relu("b", 8)))
    assert found.by == "module"
    assert [(d.change, d.entry["module"], d.entry["op"]) for d in found.differences] == [
        ("changed", "b", "linear"),
        ("changed", "b", "relu"),
    ]
    linear = found.changed[0]
    assert linear.costs["macs"] == (16, 64)
    assert linear.costs["macs"].difference == 48
    assert linear.costs["macs"].ratio == 4.0
    assert linear.costs["mread"] == (4 * (4 + 16), 4 * (8 + 64))
    assert linear.costs["n_params"] == (16, 64)
    assert linear.settings["output_shapes"] == ([(1, 4)], [(1, 8)])
    assert found.totals["macs"] == (32, 80)
    assert found.operators["linear"]["macs"] == (32, 80)
    assert found.operators["relu"]["n_layers"] == (2, 2)


def test_added_and_removed_calls_are_listed():
    found = compare(net(*BLOCKS), net(dense("a"), dense("b"), relu("b"), dense("c")))
    assert [(d.change, d.entry["module"], d.entry["op"]) for d in found.differences] == [
        ("removed", "a", "relu"),
        ("added", "c", "linear"),
    ]
    assert found.added[0].costs["macs"] == (0, 16)
    assert found.added[0].costs["macs"].ratio is None
    assert found.removed[0].costs["flops"] == (4, 0)
    assert found.removed[0].settings == {}


def test_of_several_calls_of_a_module_the_removed_one_is_listed():
    old = net(dense("m", 2), dense("m", 3), dense("m", 5))
    new = net(dense("m", 2), dense("m", 5))
    assert [(d.change, d.entry["macs"]) for d in compare(old, new).differences] == [("removed", 9)]


def test_a_renamed_module_is_not_a_change():
    found = compare(net(*BLOCKS), net(dense("a"), relu("a"), dense("head"), relu("head")))
    assert found.equal
    assert found.moved == [("b", "head")]


def test_a_replaced_operator_is_a_change():
    gelu = Step("gelu", "a", add=20, mread=16, mwrite=16)
    found = compare(net(*BLOCKS), net(dense("a"), gelu, *BLOCKS[2:]))
    assert [d.change for d in found.differences] == ["changed"]
    assert found.changed[0].settings["op"] == ("relu", "gelu")


def test_attributes_without_effect_on_costs_are_changes_too():
    old, new = (net(Step("pool", "p", add=4, settings={"kernel": (k, k), "stride": (2, 2)})) for k in (2, 3))
    assert compare(old, new).changed[0].settings == {"kernel": ((2, 2), (3, 3))}
    assert compare(old, new, by="order").equal


def test_phases_are_kept_apart():
    gradient = relu("a", phase="backward")
    assert [d.entry["phase"] for d in compare(net(relu("a"), gradient), net(relu("a"))).removed] == ["backward"]


def test_parameters_count_once_in_totals():
    tied = dense("a")
    found = compare(net(tied), net(tied, tied))
    assert found.totals["n_params"] == (16, 16)
    assert found.totals["macs"] == (16, 32)


CONVERTED = (
    dense("", type="Gemm"),
    Step("relu", "", add=4, mread=16, mwrite=16, type="Relu"),
    Step("transpose", "", mread=16, mwrite=16, type="Transpose"),
    Step("matmul", "", 16, 12, 0, 80, 16, (1, 4), {"w": 16}, type="MatMul"),
    Step("add", "", add=4, mread=32, mwrite=16, type="Add"),
    relu("", type="Relu"),
)


def test_a_conversion_is_audited_by_order():
    old = net(dense("a"), norm("a"), relu("a"), dense("b"), relu("b"), framework="torch")
    found = compare(old, net(*CONVERTED, framework="onnx"))
    assert found.by == "order"
    assert [(d.change, d.entry["op"]) for d in found.differences] == [
        ("removed", "batch_norm"),
        ("added", "transpose"),
        ("changed", "matmul"),
        ("added", "add"),
    ]
    assert found.totals["macs"].equal
    assert found.data_movement == (0, 32)
    made = found.to_dict()["conversion"]
    assert [(m["what"], m["old"], m["new"], m["times"]) for m in made] == [
        ("folded", ["batch_norm"], [], 1),
        ("added", [], ["transpose"], 1),
        ("became", ["linear"], ["matmul", "add"], 1),
    ]
    assert made[0]["flops"] == {"old": 4, "new": 0, "difference": -4, "ratio": 0.0}
    assert made[1]["mrw"]["difference"] == 32
    assert made[2]["flops"]["difference"] == 0  # 16 fma against 12 fma and 4 add


def test_a_conversion_that_decomposes_an_operator():
    gelu = Step("gelu", "a", add=20, mread=16, mwrite=16)
    decomposed = [Step(op, "", add=4, mread=16, mwrite=16) for op in ("div", "erf", "add", "mul", "mul")]
    old = net(dense("a"), gelu, dense("b"), gelu, framework="torch")
    new = net(dense(""), *decomposed, dense(""), *decomposed, framework="onnx")
    (made,) = compare(old, new).to_dict()["conversion"]
    assert (made["what"], made["old"], made["new"], made["times"]) == (
        "became",
        ["gelu"],
        ["div", "erf", "add", "mul", "mul"],
        2,
    )


def test_zero_cost_calls_are_not_compared_across_frameworks():
    old = net(dense("a"), Step("view", shape=(2, 2)), Step("dropout"), framework="torch")
    found = compare(old, net(dense("a"), Step("reshape", shape=(2, 2)), framework="onnx"))
    assert found.equal
    assert found.notes == ["calls that cost nothing are not compared: 2 and 1"]
    copies = net(dense("a"), Step("reshape", shape=(2, 2), mread=16, mwrite=16), framework="onnx")
    assert [d.entry["op"] for d in compare(old, copies).added] == ["reshape"]


def test_an_operator_not_right_behind_a_product_is_dropped_not_folded():
    old = net(dense("a"), relu("a"), norm("a"), framework="torch")
    made = compare(old, net(dense(""), relu(""), framework="onnx")).to_dict()["conversion"]
    assert [(m["what"], m["old"]) for m in made] == [("dropped", ["batch_norm"])]


def test_a_bias_right_behind_a_product_belongs_to_it():
    add = Step("add", add=4, mread=32, mwrite=16)
    product = Step("matmul", "", 16, 12, 0, 80, 16, (1, 4), {"w": 16})
    old = net(dense("a"), add, relu("r"), framework="torch")
    made = compare(old, net(product, add, add, relu(""), framework="onnx")).to_dict()["conversion"]
    assert [(m["what"], m["old"], m["new"]) for m in made] == [("became", ["linear"], ["matmul", "add"])]


def test_module_paths_do_not_matter_across_frameworks():
    same = [step._replace(module="") for step in BLOCKS]
    found = compare(net(*BLOCKS, framework="torch"), net(*same, framework="chainer"))
    assert found.equal and found.moved == []


def test_repeated_blocks_are_matched_in_order():
    old = net(*BLOCKS * 20, framework="torch")
    new = net(*(step._replace(module="") for step in (*BLOCKS * 10, dense("x", 3), *BLOCKS * 10)), framework="onnx")
    assert [(d.change, d.entry["macs"]) for d in compare(old, new).differences] == [("added", 9)]


def test_the_verdict_states_that_a_report_is_partial():
    wave = Step("toy::Wave", "w", type="Wave", known=False)
    found = compare(net(*BLOCKS), net(*BLOCKS, wave, wave), names=("v1", "v2"))
    assert found.summary[-1] == "v2 is partial: not counted: 2 calls of 1 unsupported operator (Wave)"


def test_symbolic_costs_are_compared():
    n = Symbol("n", integer=True, positive=True)
    old, new = (net(Step("linear", "a", macs=macs, fma=macs)) for macs in (n * (n + 1), n * n + n))
    assert compare(old, new).equal
    found = compare(net(Step("linear", "a", macs=n)), net(Step("linear", "a", macs=2 * n)))
    assert found.totals["macs"].difference == n
    assert found.totals["macs"].ratio == 2.0
    assert json.loads(found.to_json())["totals"]["macs"] == {"old": "n", "new": "2*n", "difference": "n", "ratio": 2.0}
    assert "MACs: n → 2*n (+n, ×2.0000)" in found.summary


def test_symbolic_costs_that_are_not_multiples_have_no_ratio():
    n = Symbol("n", integer=True, positive=True)
    found = compare(net(Step("linear", "a", macs=n + 8)), net(Step("linear", "a", macs=n)))
    assert found.totals["macs"].ratio is None
    assert "MACs: n + 8 → n (-8)" in found.summary


def test_a_parameter_that_is_shared_counts_once_in_its_operator():
    """The second call reads the same weight of 16 elements: 16 parameters before and after."""
    once, twice = (net(*[dense("a")] * calls) for calls in (1, 2))
    found = compare(once, twice)
    assert found.totals["n_params"] == found.operators["linear"]["n_params"] == (16, 16)


def test_reports_that_cannot_be_compared_are_an_error():
    with pytest.raises(CostError, match="v1 counts a fused multiply-add as one FLOP, v2 as two FLOPs"):
        compare(net(*BLOCKS), net(*BLOCKS, fma_1flop=False), names=("v1", "v2"))
    with pytest.raises(ValueError, match=r"expected module, order"):
        compare(net(), net(), by="name")
    with pytest.raises(TypeError, match="two reports"):
        compare(net(), "report.json")


def test_different_layouts_are_noted():
    found = compare(net(*BLOCKS), net(*BLOCKS, layout="free"))
    assert found.notes == ["old was counted with layout='framework', new with layout='free'"]


PRUNED = compare(net(*BLOCKS), net(dense("a"), relu("a"), dense("b", 2), relu("b", 2), dense("c|`d", 2)))


def test_markdown_for_a_pull_request():
    text = PRUNED.to_markdown()
    lines = text.splitlines()
    assert lines[0] == "**`old` → `new`**"
    assert lines[2] == "- MACs: 32 → 24 (-8, ×0.7500)"  # 16 + 4 + 4
    assert "| MACs | 32 | 24 | -8 | ×0.7500 |" in lines
    assert "<details><summary>Calls: 1 added, 0 removed, 2 changed</summary>" in lines
    assert "| added | c\\|\\`d | linear | linear-3 | FLOPs | 0 | 4 | +4 |  |" in lines
    assert text.count("<details>") == text.count("</details>") == 2


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        ({"kernel": (2, 2)}, {"kernel": (3, 3)}, "kernel: 2 → 3"),
        ({"padding": (1, 0)}, {"padding": (0, 0), "dilation": 2}, "padding: (1, 0) → 0, "),
    ],
)
@pytest.mark.parametrize("width", [80, 200])
def test_a_row_that_differs_shows_in_what(old, new, row, width, monkeypatch):
    """A narrow terminal drops columns, but not this one."""
    monkeypatch.setenv("COLUMNS", str(width))
    out = io.StringIO()
    out.isatty = lambda: True
    compare(*(net(Step("pool", "p", add=4, settings=settings)) for settings in (old, new))).show(out)
    assert row in out.getvalue()


def test_a_shape_that_differs_is_shown_without_the_others():
    """The linear of ``PRUNED`` reads (1, 8) instead of (1, 4) and the same bias."""
    shown = [line for line in PRUNED.to_markdown().splitlines() if "shapes: " in line]
    assert shown and all(line.startswith("|  |  |  |  | ") for line in shown)


def test_the_largest_change_comes_first_and_zero_cost_ones_last():
    n = Symbol("n", integer=True, positive=True)
    free = Step("reshape", "free")
    copy = Step("copy", "copies", mread=100, mwrite=100)
    new = net(free, relu("r", 8), copy, dense("a", 3), dense("s", n), free)
    text = compare(net(), new).to_markdown()
    calls = [line.split(" | ")[1:3] for line in text.splitlines() if line.startswith("| added")]
    # FLOPs: 64^2 with n = 64, 3^2 = 9, 8, and none; then 200 bytes, then none
    assert calls == [["s", "linear"], ["a", "linear"], ["r", "relu"], ["copies", "copy"], *[["free", "reshape"]] * 2]
    operators = [line[2:].partition(" (")[0] for line in text.splitlines() if " calls) | " in line]
    assert operators == ["linear", "relu", "copy", "reshape"]


def test_the_number_of_omitted_rows_is_stated():
    text = PRUNED.to_markdown(top=2)
    assert "… and 3 more rows; JSON has all of them" in text  # five totals
    out = io.StringIO()
    PRUNED.show(out)
    assert "more rows" not in out.getvalue()


def test_a_table_for_a_terminal():
    out = io.StringIO()
    PRUNED.show(out, "table")
    assert out.getvalue().startswith("old → new\n\n- MACs: 32 → 24 (-8, ×0.7500)\n")
    assert "changed | b" in out.getvalue()


def test_an_equal_comparison_is_short():
    report = net(*BLOCKS)
    assert compare(report, report).to_markdown().endswith("\n\nNo call was added, removed or changed.\n")


def test_json_is_exact_and_deterministic():
    big = net(Step("linear", "a", macs=2**70 + 1))
    text = compare(net(Step("linear", "a")), big).to_json()
    assert text == compare(net(Step("linear", "a")), big).to_json()
    content = json.loads(text)
    assert content["schema"] == "costcore-comparison-1"
    assert content["totals"]["macs"] == {"old": 0, "new": 2**70 + 1, "difference": 2**70 + 1, "ratio": None}
    assert content["differences"][0]["new"]["module"] == "a"


def test_an_unknown_mode_is_an_error():
    with pytest.raises(ValueError, match="expected table, md, comment, json, html"):
        PRUNED.show(io.StringIO(), "pdf")


def move(op, size=4):
    """A call that reads and writes ``size`` elements, and computes nothing."""
    return Step(op, mread=4 * size, mwrite=4 * size, shape=(1, size))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (relu(""), move("transpose")),  # one computes, the other only moves
        (move("copy"), relu("")),
        (relu("", 4), Step("mul", add=1, mread=8, mwrite=4, shape=(1,))),  # 4 elements, and one
        (Step("mul", add=4, mread=16, mwrite=16), Step("mul", add=1, mread=8, mwrite=4, shape=(1,))),
    ],
)
def test_unrelated_leftovers_are_not_matched(old, new):
    before = net(dense("a"), old, dense("b"), framework="torch")
    found = compare(before, net(dense(""), new, dense(""), framework="onnx"))
    assert [d.change for d in found.differences] == ["removed", "added"]
    assert compare(before, net(dense(""), old, dense(""), framework="onnx")).equal


def test_a_call_that_replaces_another_is_matched():
    before = net(dense("a"), relu("a"), dense("b"), framework="torch")
    gelu = Step("gelu", "", add=20, mread=16, mwrite=16)
    (made,) = compare(before, net(dense(""), gelu, dense(""), framework="onnx")).differences
    assert (made.change, made.settings["op"]) == ("changed", ("relu", "gelu"))


def test_unrelated_calls_of_one_module_are_not_matched():
    found = compare(net(relu("m")), net(Step("transpose", "m", mread=16, mwrite=16)))
    assert sorted(d.change for d in found.differences) == ["added", "removed"]


def test_calls_that_move_data_do_not_become_calls_that_compute():
    gelu = Step("gelu", "", add=20, mread=16, mwrite=16)
    old = net(dense("a"), gelu, move("copy"), dense("b"), framework="torch")
    pieces = [Step(op, "", add=4, mread=16, mwrite=16) for op in ("erf", "mul", "mul")]
    new = net(dense(""), move("transpose"), move("cast"), *pieces, dense(""), framework="onnx")
    made = compare(old, new).to_dict()["conversion"]
    assert [(m["what"], m["old"], m["new"]) for m in made] == [
        ("became", ["gelu"], ["erf", "mul", "mul"]),
        ("became", ["copy"], ["transpose", "cast"]),
    ]


def test_weights_that_are_stored_again_are_noted():
    """An embedding of 16 elements whose head reads it transposed: stored as a second tensor of 16 elements."""
    table = {"table": 16}
    lookup = Step("embedding", "e", mread=16, mwrite=16, weights=table)
    head = Step("linear", "head", 16, 16, 0, 80, 16, weights=table)
    untied = head._replace(weights={"transposed": 16})
    tied = net(lookup, head, framework="torch")
    found = compare(tied, net(lookup, untied, framework="onnx"), names=("net", "file"))
    assert found.totals["n_params"] == (16, 32)
    assert found.notes == [
        "file stores 16 parameters again that net has once: tied weights, or equal values that an exporter merged"
    ]
    swapped = compare(net(lookup, untied, framework="onnx"), tied, names=("file", "net"))
    assert swapped.notes == found.notes
    assert compare(tied, tied).notes == []


def test_a_further_weight_of_that_size_is_not_a_tied_one():
    weights = {"a": 16}
    twice = [Step("linear", "m", 16, 16, 0, 80, 16, weights=weights)] * 2
    found = compare(net(*twice), net(*twice, Step("linear", "n", 16, 16, 0, 80, 16, weights={"b": 16})))
    assert found.notes == [], "one operator of one module runs twice"


# Changes of a conversion in words.


def plain(op, *shape, **more):
    """Return an element-wise call: an operation per element of four bytes, read once and written."""
    size = 4 if not shape else shape[-1] * shape[-2]
    more = {"add": size, "mread": 4 * size, "mwrite": 4 * size, **more}
    return Step(op, shape=shape or (1, 4), **more)


def product(op, macs, *shape, biased=0, **more):
    """Return a matrix product of 4 inputs with its weights, and a bias if it has one."""
    weights = {f"{op}.{macs}.w": macs, **({f"{op}.{macs}.b": biased} if biased else {})}
    return Step(op, macs=macs, fma=macs, mread=4 * (4 + macs + biased), mwrite=16, shape=shape, weights=weights, **more)


def scores(macs, *shape):
    """Return a matrix product of two activations."""
    return Step("matmul", macs=macs, fma=macs, mread=8 * macs, mwrite=16, shape=shape)


BIAS = plain("add", 1, 4, 8, 8, weights={"bias": 4})
CONV, BIASED = product("conv", 36, 1, 4, 8, 8), product("conv", 36, 1, 4, 8, 8, biased=4)
BATCH_NORM = plain("batch_norm", weights={"scale": 4})
ATTENTION = Step("attention", macs=32, fma=32, mread=48, mwrite=16, shape=(1, 4))
WRITTEN_OUT = (scores(16, 4, 4), plain("mul"), plain("softmax"), scores(16, 1, 4))
PADDED, UNPADDED = (product("conv", 36, 1, 4, 8, 8, settings={"padding": padding}) for padding in (1, (0, 0)))
TO_NHWC = plain("transpose", 1, 4, 8, 8, add=0, settings={"axes": (0, 2, 3, 1)})
PACKED, APART = product("linear", 48, 1, 12), product("linear", 16, 1, 4)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ([CONV, BATCH_NORM, plain("relu")], [BIASED, plain("relu")], ["1 batch_norm folded into conv"]),
        (
            [CONV, BATCH_NORM, plain("relu")],
            [CONV, BIAS, plain("relu")],
            ["1 batch_norm folded into conv, whose bias is a call of its own"],
        ),
        ([BIASED], [CONV, BIAS], ["the bias of 1 conv is a call of its own"]),
        ([CONV, BIAS], [BIASED], ["1 × conv, add became conv"]),
        (
            [CONV, BATCH_NORM, plain("relu6")],
            [product("fused_conv", 36, 1, 8, 8, 4, biased=4)],
            ["1 × conv, relu6 became fused_conv; 1 batch_norm folded into conv"],
        ),
        ([CONV, plain("silu"), CONV], [CONV, plain("sigmoid"), plain("mul"), CONV], ["1 silu became sigmoid, mul"]),
        ([CONV, plain("sigmoid"), plain("mul")], [CONV, plain("silu")], ["1 × sigmoid, mul became silu"]),
        ([APART, ATTENTION], [APART, *WRITTEN_OUT], ["1 attention became 2 matmul, mul, softmax"]),
        (
            [PACKED, ATTENTION, CONV],
            [APART, APART, APART, *WRITTEN_OUT, CONV],
            ["1 attention became 2 matmul, mul, softmax; 1 linear became 3 linear"],
        ),
        ([CONV, plain("relu6")], [CONV, plain("clip")], ["with another name: 1 relu6 (clip)"]),
        ([CONV, plain("relu")], [CONV, plain("quantized_relu")], ["quantized: 1 relu"]),
        ([CONV], [plain("cast", add=0), CONV], ["added: 1 cast (+32 B)"]),
        ([CONV, plain("tanh")], [CONV], ["dropped: 1 tanh (-32 B)"]),
        ([CONV], [TO_NHWC, CONV], ["layout: 1 transpose to NHWC (+512 B)"]),
        (
            [PADDED, PADDED],
            [plain("pad", add=0), UNPADDED, plain("cast", add=0), plain("pad", add=0), UNPADDED],
            ["the padding of 2 conv is a call of its own: pad (+64 B)", "added: 1 cast (+32 B)"],
        ),
        ([PADDED], [plain("pad", add=0), PADDED], ["added: 1 pad (+32 B)"]),
        ([UNPADDED], [plain("pad", add=0), UNPADDED], ["added: 1 pad (+32 B)"]),
        ([CONV, plain("view", add=0, mread=0, mwrite=0, type="permute")], [CONV, plain("transpose", add=0)],
         ["added: 1 transpose (+32 B); 1 of them were views, which cost nothing"]),
        (
            [CONV, plain("add", 8, 6)],
            [CONV, plain("add", 6, 8)],  # in another layout
            [],
        ),
    ],
)  # fmt: skip
def test_a_conversion_in_words(old, new, words):
    found = compare(net(*old, framework="torch"), net(*new, framework="onnx"))
    assert found.summary[: len(words) + 1] == [*words, f"MACs: equal, {found.totals['macs'].old}"]
    for cost, totals in (("flops", ["flops"]), ("macs", ["macs"]), ("mrw", ["mread", "mwrite"])):
        parts = sum(getattr(each, cost).difference for each in found.conversion)
        assert parts == sum(found.totals[name].difference for name in totals)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            [CONV, dense("pooler", module="head")] if False else [CONV, dense("head")],
            [CONV],
            "linear head dropped (-16)",
        ),
        (
            [CONV, APART],
            [product("conv", 48, 1, 4, 8, 8), APART],
            "conv (36,) → (48,) (+12)",
        ),  # 3 channels, padded to 4
        ([PACKED, CONV], [APART, CONV], "linear (1, 12) → (1, 4) (-32)"),
    ],
)
def test_a_difference_of_macs_is_that_of_some_products(old, new, words):
    found = compare(net(*old, framework="torch"), net(*new, framework="onnx"))
    assert f"the difference in MACs: {words}" in found.summary


def test_many_calls_without_a_counterpart_take_little_time():
    old, new = net(*[ATTENTION] * 1000, framework="torch"), net(*[plain("mul")] * 1000, framework="onnx")
    with at_most(300_000):
        (only,) = compare(old, new).conversion
    assert only.text == "1 × 1000 attention became 1000 mul"


def test_formulas_are_rounded_in_tables():
    batch = Symbol("batch", integer=True, positive=True)
    steps = [step._replace(add=300_774_272 * batch, mread=30_774_272 * batch + 4000) for step in (relu("a"), relu("b"))]
    found = compare(net(steps[0], framework="torch"), net(*steps, framework="onnx"))
    text = found.to_markdown()
    assert "| FLOPs | 300.8 M\\*batch | 601.5 M\\*batch | +300.8 M\\*batch |" in text
    assert "| bytes read | 29.35 MiB\\*batch + 4000 |" in text
    assert "FLOPs: 300774272\\*batch → 601548544\\*batch" in text


def test_dtypes_of_weights_and_values_are_compared():
    """Two matrices of 16 elements, and four results of 4 elements."""
    found = compare(net(*BLOCKS, framework="torch"), net(*BLOCKS, framework="onnx", dtype="float16"))
    assert found.summary[:2] == [
        "weights in float16 instead of float32: 64 B instead of 128 B",
        "values in float16 instead of float32: 32 B instead of 64 B",
    ]
