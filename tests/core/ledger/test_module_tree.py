import csv
import io

import pytest
import sympy

from costcore import ComputationalCostHook, Layer, Tensor, TreeColumns, estimate
from tests.core.toy_networks import chain, nested_report
from tests.core.traces import Call, Module, Recorder, report_of

ADDED = (
    *("flops", "macs", "mread", "mwrite", "mrw", "n_layers", "n_unknown"),
    *("activations", "n_trainable", "n_frozen", "n_buffers"),
)


@pytest.fixture
def report(toy):
    return nested_report(toy)


def walk(tree):
    """Yield every node with its depth, parents before children."""
    stack = [(0, tree)]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        stack += [(depth + 1, child) for child in reversed(node["children"])]


def shown(report, **options):
    stream = io.StringIO()
    report.show_tree(stream, **{"mode": "csv", **options})
    return stream.getvalue()


def assert_children_add_up(tree):
    for _, node in walk(tree):
        if children := node["children"]:
            for key in ADDED:
                if node[key] is not None:
                    assert sum(child[key] for child in children) == node[key], (node["path"], key)
            assert sum(c["n_params"] - c["n_shared"] for c in children) == node["n_params"] - node["n_shared"]


def test_the_tree_is_nested_as_the_model_is(report):
    lines = [(depth, node["name"], node["path"], node["type"]) for depth, node in walk(report.tree())]
    assert lines == [
        (0, "", "", "Net"),
        (1, "(own calls)", "", ""),
        (1, "body", "body", "Sequential"),
        (2, "(own calls)", "body", ""),
        (2, "0", "body.0", "Dense"),
        (2, "1", "body.1", "Double"),
        (1, "head", "head", "Dense"),
        (1, "tied", "tied", "Dense"),
        (1, "unused", "unused", "Dense"),
    ]


def test_children_add_up_to_their_parent_and_all_to_the_total(report):
    tree, total = report.tree(), report.total_report
    assert_children_add_up(tree)
    keys = ("flops", "macs", "mread", "mwrite", "mrw", "n_layers")
    assert {key: tree[key] for key in keys} == {key: total[key] for key in keys}
    assert tree["flops%"] == 100.0


def test_parameters_are_trainable_frozen_or_shared(report):
    tree = report.tree()
    held = {
        node["path"]: tuple(node[key] for key in ("n_params", "n_trainable", "n_frozen", "n_shared", "n_buffers"))
        for _, node in walk(tree)
        if not node["is_own"]
    }
    assert held == {
        "": (30, 21, 9, 0, 6),  # 9 + 9 + 5 + 7, the head's 9 frozen
        "body": (14, 14, 0, 0, 4),
        "body.0": (9, 9, 0, 0, 0),
        "body.1": (0, 0, 0, 0, 0),
        "head": (9, 0, 9, 0, 0),
        "tied": (9, 0, 0, 9, 0),
        "unused": (7, 7, 0, 0, 2),
    }
    own = next(node for _, node in walk(tree) if node["path"] == "body" and node["is_own"])
    assert (own["n_trainable"], own["n_buffers"], own["flops"]) == (5, 4, 6)


def test_a_parameter_shared_only_inside_a_module_is_not_shared_by_the_module(toy):
    modules = {"": Module("Net"), "a": Module("A"), "a.x": Module("X", (-1,)), "a.y": Module("X", (-1,), same_as="a.x")}
    net = toy.Network(modules, [("toy::Double", "a.x", None)], {-1: 9})
    nodes = {node["path"]: node for _, node in walk(estimate(net, (2, 3)).tree())}
    assert (nodes["a"]["n_params"], nodes["a"]["n_shared"]) == (9, 0)
    assert (nodes["a.y"]["n_params"], nodes["a.y"]["n_shared"]) == (9, 9)


def test_the_output_shape_is_that_of_the_last_forward_call(toy):
    with ComputationalCostHook() as hook:
        toy.run("toy::Double", (2, 3), module="a")
        toy.run("toy::Double", (5, 7), module="a.b")
    nodes = {node["path"]: node for _, node in walk(hook.report.tree()) if not node["is_own"]}
    assert nodes["a"]["output_shape"] == nodes["a.b"]["output_shape"] == nodes[""]["output_shape"] == (5, 7)


def test_the_output_shape_without_a_forward_call_is_that_of_the_last_call():
    recorder = Recorder()
    for shape in ((2, 3), (5, 7)):
        layer = recorder.intern(Layer("relu", {"x": Tensor(shape)}, [Tensor(shape)]))
        recorder.record(Call(layer, "relu", module="a", phase="backward"))
    assert [node["output_shape"] for _, node in walk(report_of(recorder).tree())] == [(5, 7)] * 2


def test_without_a_model_the_tree_has_the_module_paths_of_calls(toy):
    with ComputationalCostHook() as hook:
        toy.run("toy::Double")
        toy.run("toy::Dense", module="a.b", weight=1)
        toy.run("toy::Dense", module="c", weight=1)
    tree = hook.report.tree()
    assert [(depth, node["name"]) for depth, node in walk(tree)] == [
        (0, ""),
        (1, "(outside of any module)"),
        (1, "a"),
        (2, "b"),
        (1, "c"),
    ]
    assert (tree["n_params"], tree["n_trainable"], tree["n_frozen"], tree["n_buffers"]) == (9, None, None, None)
    assert tree["children"][2]["n_shared"] == 9
    assert_children_add_up(tree)
    assert ",-,-,0,-," in shown(hook.report, columns=TreeColumns.DETAILED).splitlines()[1]


def test_n_unknown_counts_the_calls_without_a_cost(toy):
    with pytest.warns(UserWarning, match="toy::Wave"), ComputationalCostHook() as hook:
        toy.run("toy::Wave", module="a")
        toy.run("toy::Double", module="a.b")
    tree = hook.report.tree()
    assert_children_add_up(tree)
    assert (tree["n_unknown"], tree["n_layers"], tree["flops"]) == (1, 1, 6)


def test_the_tree_of_a_report_without_calls_has_only_the_root(toy):
    with ComputationalCostHook() as hook:
        pass
    tree = hook.report.tree()
    assert (tree["flops"], tree["output_shape"], tree["children"]) == (0, None, [])
    assert shown(hook.report, mode="table")


def test_symbolic_costs_add_up(toy):
    n = sympy.Symbol("n", integer=True, positive=True)
    with ComputationalCostHook() as hook:
        toy.run("toy::Dense", (n, 3), module="a.b", weight=1)
        toy.run("toy::Double", (n, 3), module="a")
    tree = hook.report.tree()
    assert_children_add_up(tree)
    assert (tree["flops"], tree["activations"]) == (12 * n, 24 * n)
    assert "12*n" in shown(hook.report, unit=None, mode="table")


def test_a_scope_of_slashes_keeps_the_dots_in_its_names(toy):
    with ComputationalCostHook() as hook:
        toy.run("toy::Double", module="/layer1/layer1.0/conv1")
    assert [node["name"] for _, node in walk(hook.report.tree())] == ["", "layer1", "layer1.0", "conv1"]


def test_depth_limits_the_rows_and_not_the_sums(report):
    columns = ["module", "flops", "n_trainable"]
    assert shown(report, unit=None, columns=columns, depth=1).splitlines() == [
        "Module,FLOPs,# Trainable",
        "total,72,21",
        "(own calls),6,0",
        "body,30,14",
        "head,18,0",
        "tied,18,0",
        "unused,0,7",
    ]
    assert shown(report, unit=None, columns=columns, depth=0).splitlines()[1:] == ["total,72,21"]


def test_markdown_is_indented_without_spaces_that_markdown_collapses(report):
    text = shown(report, mode="md", unit=None, columns=["module", "flops"])
    assert text.splitlines()[2:] == [
        "| total | 72 |",
        "| ├ (own calls) | 6 |",
        "| ├ body | 30 |",
        "| │ ├ (own calls) | 6 |",
        "| │ ├ 0 | 18 |",
        "| │ └ 1 | 6 |",
        "| ├ head | 18 |",
        "| ├ tied (same as body.0) | 18 |",
        "| └ unused | 0 |",
    ]


def test_csv_has_the_whole_path(report):
    rows = list(csv.reader(io.StringIO(shown(report, unit=None, columns=["module", "depth"]))))
    assert rows[1:] == [
        ["total", "0"],
        ["(own calls)", "1"],
        ["body", "1"],
        ["body (own calls)", "2"],
        ["body.0", "2"],
        ["body.1", "2"],
        ["head", "1"],
        ["tied", "1"],
        ["unused", "1"],
    ]


def test_sort_and_top_apply_to_the_children_of_each_module(report):
    text = shown(report, unit=None, columns=["module", "flops", "n_buffers"], sort="flops", top=2)
    assert text.splitlines()[1:] == [
        "total,72,6",
        "body,30,4",
        "body.0,18,0",
        "body (own calls),6,4",
        "body others,6,0",
        "head,18,0",
        "others,24,2",  # tied 18, the model's own 6, unused 0
    ]


@pytest.mark.parametrize(("depth", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_an_invalid_depth_is_an_error(report, depth, error):
    with pytest.raises(error, match="depth must be"):
        shown(report, depth=depth)


def test_ten_thousand_levels(toy):
    report = estimate(chain(toy, 10_000), (2, 3))
    tree = report.tree()
    assert (tree["flops"], tree["n_trainable"], tree["n_buffers"]) == (60_006, 90_009, 10_001)
    assert max(depth for depth, _ in walk(tree)) == 10_000
    text = shown(report, mode="md", columns=["module", "flops"], unit=None)
    assert text.splitlines()[-1] == "| … 10000 levels … m | 6 |"
    assert shown(report, mode="table", depth=30, columns=["module"]).count("\n") > 30


HOSTILE = [
    "a|b",
    "=1+1",
    "<script>",
    "\x1b[31m",
    "..",
    "a..b",
    ".",
    "/",
    "//x",
    "(own calls)",
    "名前",
    "a\nb",
    "'\"`\\",
]


@pytest.mark.parametrize("path", HOSTILE)
@pytest.mark.parametrize("mode", ["csv", "md", "table"])
def test_a_module_can_have_any_name(toy, path, mode):
    with ComputationalCostHook() as hook:
        toy.run("toy::Double", module=path)
        toy.run("toy::Double", module=f"{path}.below")
    assert_children_add_up(hook.report.tree())
    text = shown(hook.report, mode=mode, unit=None, columns=["module", "flops"])
    assert mode == "csv" or "\x1b" not in text
    assert mode != "md" or "<script" not in text


def towers(toy, classes, names=None, same_as=""):
    """A report of modules in a row, each of which holds one Dense: 18 FLOPs, 9 parameters, reads 60 B, writes 24 B."""
    names = names or [f"layers.{i}" for i in range(len(classes))]
    modules, calls, parameters = {"": Module("Net")}, [], {}
    for i, (name, kind) in enumerate(zip(names, classes, strict=True), 1):
        modules |= {name: Module(kind, same_as=same_as if i > 1 else ""), f"{name}.proj": Module("Dense", (-i,))}
        calls.append(("toy::Dense", f"{name}.proj", i))
        parameters[-i] = 9
    return estimate(toy.Network(modules, calls, parameters), (2, 3))


@pytest.mark.parametrize(
    ("classes", "names", "rows"),
    [
        ("AAA", None, ["total 54 27", "├ layers 54 27", "├ 0 … 2 ×3 54 27", "├ proj 54 27"]),
        ("AA", None, ["total 36 18", "├ layers 36 18", "├ 0 18 9", "├ proj 18 9", "├ 1 18 9", "├ proj 18 9"]),
        ("ABBBB", "abcde", ["total 90 45", "├ a 18 9", "├ proj 18 9", "├ b … e ×4 72 36", "├ proj 72 36"]),
        ("ABA", "abc", ["total 54 27", *(line for name in "abc" for line in (f"├ {name} 18 9", "├ proj 18 9"))]),
    ],
    ids=["three", "two", "after-another", "not-in-a-row"],
)
def test_equal_modules_in_a_row_are_one_row_with_their_sums(toy, classes, names, rows):
    text = shown(towers(toy, classes, names), mode="md", unit=None, columns=["module", "flops", "n_params"])
    bare = [line.strip("| ").replace(" | ", " ") for line in text.splitlines()[2:] if line.startswith("|")]
    assert [line.replace("└", "├").replace("· ", "").replace("│ ", "") for line in bare] == rows


@pytest.mark.parametrize("options", [{"fold": False}, {"mode": "csv"}, {"columns": ["module", "n_weights"]}])
def test_modules_stay_apart(toy, options):
    text = shown(towers(toy, "AAA"), **{"mode": "table", "columns": ["module", "flops"], **options})
    assert "×" not in text and text.count("proj") == 3


def test_a_module_that_is_used_again_is_not_folded(toy):
    text = shown(towers(toy, "AAAA", "abcd", same_as="a"), mode="table")
    assert "×" not in text and text.count("(same as a)") == 3


def test_default_columns_without_a_value_take_no_width(report, toy):
    header = shown(towers(toy, "AB"), mode="md").splitlines()[0]
    assert [title.strip() for title in header.strip("| ").split("|")] == [
        *("Module", "Class", "Output shape", "# Params", "FLOPs", "FLOPs (%)", "MACs", "MemR+W B")
    ]
    assert "# Trainable" in shown(report, mode="md")  # its head is frozen
    assert "# Trainable" in shown(towers(toy, "AB"), mode="md", columns=["module", "n_trainable"])


def test_the_lines_below_the_tree_have_parameters_and_memory(report, toy):
    """Weights are float32: 4 x 9 bytes each. Outputs: 2 x 3 elements of each call."""
    assert shown(towers(toy, "AB"), mode="table").splitlines()[-2:] == [
        "parameters: 18, all trainable",
        "memory: weights 72 B, outputs of all forward calls 48 B, together 120 B",
    ]
    assert shown(report, mode="table").splitlines()[-2:] == [
        "parameters: 30, 21 trainable",
        "memory: weights 72 B, outputs of all forward calls 144 B, together 216 B",  # 2 weights read, 6 calls
    ]


@pytest.mark.parametrize(
    ("mode", "text"), [("table", "| 1,234,567 |"), ("md", "| 1,234,567 |"), ("csv", "total,1234567")]
)
def test_thousands_are_separated_for_people(toy, mode, text):
    big = toy.Network({"": Module("Net", (-1,))}, [("toy::Double", "", None)], {-1: 1_234_567})
    assert text in shown(estimate(big, (2, 3)), mode=mode, columns=["module", "n_params"])
