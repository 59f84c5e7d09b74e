"""The HTML page as text: self-contained, exact, and safe against hostile names."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
import sympy

from tests.core import html_reports
from tests.core.given_costs import dense, net, relu
from tests.core.html_reports import page_data
from tests.core.traces import Assumption, Rank, Uncounted

VOID = {"meta", "link", "input", "br", "img"}


class Page(HTMLParser):
    """A parsed page: elements with their attributes, text, scripts, styles, and the embedded data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        {"script": self.scripts, "style": self.styles}.get(inside, self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.scripts[0])


def symbolic():
    n = sympy.Symbol("batch", integer=True, positive=True)
    calls = [html_reports.call("linear", "fc", 10 * n, 4 * n, 2 * n, 10 * n), html_reports.call("relu", "act", 5, 4, 4)]
    return html_reports.report(calls)


REPORTS = {
    "small": html_reports.small,
    "hostile": html_reports.hostile,
    "symbolic": symbolic,
    "empty": lambda: html_reports.report([]),
}


def table(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    columns, rows = data[name]["columns"], data[name]["rows"]
    return [dict(zip(columns, row, strict=True)) for row in rows]


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_is_well_formed_and_loads_nothing_from_outside(name):
    text = REPORTS[name]().to_html()
    page = Page(text)
    assert "http:" not in text and "https:" not in text and "//cdn" not in text
    assert [attrs for _, attrs in page.elements if {"src", "srcset", "action", "data"} & attrs.keys()] == []
    targets = {attrs["href"] for _, attrs in page.elements if "href" in attrs}
    assert targets <= {"data:,", "#unknown", "#basis"}
    assert "@import" not in page.styles[0] and "url(" not in page.styles[0]
    identities = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(identities) == len(set(identities))


@pytest.mark.parametrize("name", REPORTS)
def test_every_label_and_link_leads_to_an_element(name):
    page = Page(REPORTS[name]().to_html())
    identities = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    named = {attrs["aria-labelledby"] for _, attrs in page.elements if "aria-labelledby" in attrs}
    links = {attrs["href"][1:] for tag, attrs in page.elements if tag == "a"}
    assert named | links <= identities


def test_the_policy_allows_only_the_script_and_style_of_the_page():
    page = Page(html_reports.small().to_html())
    (policy,) = (attrs["content"] for tag, attrs in page.elements if attrs.get("http-equiv"))
    assert re.search(r"default-src 'none'", policy)
    for kind, source in (("script", page.scripts[1]), ("style", page.styles[0])):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert len(page.scripts) == 2
    assert not any("style" in attrs or any(key.startswith("on") for key in attrs) for _, attrs in page.elements)


def test_equal_reports_give_equal_pages():
    assert html_reports.small().to_html() == html_reports.small().to_html()
    assert html_reports.hostile().to_html() == html_reports.hostile().to_html()


def test_hostile_names_are_text():
    """The page has only the elements of a page without such names, and the names are readable."""
    text = html_reports.hostile().to_html()
    page = Page(text)
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in Page(REPORTS["small"]().to_html()).elements} | {
        *("a", "table", "thead", "tbody", "tr", "th", "td", "small")
    }
    assert text.encode("utf-8")
    assert "\u202e" not in text and "\u2066" not in text and "\x00" not in text
    for name in html_reports.HOSTILE[:3]:
        assert name in page.text
        assert name in {call["name"] for call in table(page.data, "calls")}
    assert "right\\u202eot\\u2066tfel שלום" in page.text


@pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "a & b", "שלום"])
def test_embedded_data_cannot_end_its_element(text):
    page = Page(html_reports.report([html_reports.call("mul", "", 1, 4, 4, name=text)]).to_html())
    assert page.scripts[0].isascii() and not re.search("[<>&]", page.scripts[0])
    assert table(page.data, "calls")[0]["name"] == text


def test_totals_are_readable_and_exact():
    """600 + 30 + 2**60 + 1 FLOPs, 590 + 2**60 MACs, 100 + 20 + 80 B read, 20 + 20 + 28 B written, 1000 + 24 params."""
    text = Page(html_reports.small().to_html()).text
    for title, readable, exact in (
        ("FLOPs", "1,152,922 T", "1,152,921,504,606,847,607"),
        ("MACs", "1,152,922 T", "1,152,921,504,606,847,566"),
        ("Parameters", "1.024 K", "1,024"),
        ("Bytes read", "200 B", ""),
        ("Bytes written", "68 B", ""),
        ("Calls", "3", "all of them counted"),
    ):
        assert f"{title} {readable} {exact}".strip() in text
    assert "≈ assumed: 1 assumption about data" in text and "Not counted" not in text


def test_parameters_are_trainable_and_weights_have_a_size_on_disk():
    """A matrix of 8 by 8 in float32; of the others, 24 are frozen."""
    text = Page(net(dense("a", 8)).to_html()).text
    assert "Parameters 64" in text and "Weights on disk 256 B float32" in text
    assert "Weights on disk" not in Page(html_reports.small().to_html()).text
    assert "Parameters 1.024 K 1,024, 1,000 trainable" in Page(html_reports.small().to_html()).text


def test_the_badge_states_the_status():
    """One badge if the report is complete or assumed; two if calls are not counted and something was assumed."""
    assumed = (Assumption("n is 1", "fc", "net.py:12 in forward", 3), Assumption("m is 2"))
    relu, wave = html_reports.call("relu", "act", 5, 4, 4), html_reports.unknown("toy::Wave", "act")
    assert "✓ complete" in Page(html_reports.report([relu]).to_html()).text
    text = Page(html_reports.report([relu], assumptions=assumed).to_html()).text
    assert "≈ assumed: 2 assumptions about data" in text and "complete" not in text
    assert "n is 1 at net.py:12 in forward (module `fc`, 3 times) m is 2 Versions" in text
    text = Page(html_reports.report([relu, wave], assumptions=assumed).to_html()).text
    assert "⚠ partial: 1 call not counted ≈ assumed: 2 assumptions about data" in text


def test_assumptions_versions_and_options_are_listed():
    text = Page(html_reports.small().to_html()).text
    for words in (
        "toy 7.1",
        "convention costcore-1",
        "a fused multiply-add counts as one FLOP",
        "the mask is True (net.py:12)",
    ):
        assert words in text
    two = html_reports.report([], fma_1flop=False, layout="free", notes=("fell back",))
    text = Page(two.to_html()).text
    for words in (
        "a fused multiply-add counts as two FLOPs",
        "data movement is ignored",
        "fell back",
        "No assumptions were made.",
    ):
        assert words in text


def test_uncounted_operators_are_listed_with_bytes_and_location():
    """Two calls, each of which reads 2 * 3 and writes 2 * 4 elements of 4 bytes: 48 B and 64 B."""
    where = '  File "net.py", line 7, in forward\n    y = mystery(x)\n'
    calls = [html_reports.unknown("toy::mystery", "block", where), html_reports.unknown("toy::mystery", "head")]
    text = Page(html_reports.report(calls).to_html()).text
    assert "⚠ partial: 2 calls not counted" in text
    assert "toy::mystery 2 48 B 64 B block net.py:7 in forward" in text


def test_the_error_of_a_failed_calculator_is_listed():
    item = html_reports.unknown("toy::mystery", "")._replace(
        uncounted=Uncounted.CALCULATOR_FAILED, reason="the calculator raised KeyError"
    )
    assert "toy::mystery the calculator raised KeyError" in Page(html_reports.report([item]).to_html()).text


def test_every_reason_for_which_an_operator_is_not_counted_is_listed():
    item = html_reports.unknown("toy::mystery", "")
    failed = item._replace(uncounted=Uncounted.CALCULATOR_FAILED, reason="the calculator raised KeyError")
    without_shapes = item._replace(uncounted=Uncounted.NO_SHAPES, reason="no shapes for 'mystery'")
    page = Page(html_reports.report([failed, without_shapes]).to_html()).text
    assert "toy::mystery the calculator raised KeyError 1" in page
    assert "toy::mystery no shapes for 'mystery' 1" in page


def test_the_heading_is_the_type_of_the_model_or_the_title():
    assert "<title>Net</title>" in html_reports.small().to_html()
    assert "<title>a &lt;b&gt;</title>" in html_reports.small().to_html(title="a <b>")
    assert "<title>Cost report</title>" in html_reports.report([]).to_html()


def test_exact_numbers_are_strings():
    data = Page(html_reports.small().to_html()).data
    assert data["totals"]["flops"] == "1152921504606847607"
    assert table(data, "nodes")[0]["flops"] == "1152921504606847607"
    (head,) = (layer for layer in table(data, "layers") if layer["macs"] == "1152921504606846976")
    assert head["flops"] == "1152921504606846977"


def test_the_tree_has_every_call_once_at_its_module():
    data = page_data(html_reports.small())
    nodes = table(data, "nodes")
    assert [(node["depth"], node["name"], node["path"]) for node in nodes] == [
        (0, "Net", ""),
        (1, "block", "block"),
        (2, "(own calls)", "block"),
        (2, "fc", "block.fc"),
        (1, "head", "head"),
    ]
    assert [(call["name"], nodes[call["node"]]["name"]) for call in table(data, "calls")] == [
        ("linear_type-0", "fc"),
        ("relu_type-1", "(own calls)"),
        ("linear_type-2", "head"),
    ]


def test_children_add_up_to_their_parent():
    data = page_data(html_reports.many(500))
    nodes, layers, calls = table(data, "nodes"), table(data, "layers"), table(data, "calls")
    parents: dict[int, int] = {}
    path: list[int] = []
    for index, node in enumerate(nodes):
        del path[node["depth"] :]
        parents[index] = path[-1] if path else -1
        path.append(index)
    for key in ("flops", "macs", "mrw", "n_own"):
        for index, node in enumerate(nodes):
            inside = sum(int(nodes[child][key]) for child, parent in parents.items() if parent == index)
            own = sum(
                int(call[key] if key == "n_own" else layers[call["layer"]][key])
                for call in calls
                if call["node"] == index
            )
            assert int(node[key]) == inside + own
        assert sum(int(operator[key]) for operator in table(data, "operators")) == int(data["totals"][key])
        assert nodes[0][key] == data["totals"][key]


def test_a_shared_parameter_is_drawn_once():
    """``head`` reads 1000 + 24 parameters, the 1000 after ``block.fc``."""
    data = page_data(html_reports.small())
    assert [call["n_own"] for call in table(data, "calls")] == ["1000", "0", "24"]
    assert [node["n_own"] for node in table(data, "nodes")] == ["1024", "1000", "0", "1000", "24"]
    assert {row["op"]: row["n_own"] for row in table(data, "operators")} == {"linear": "1024", "relu": "0"}


def test_symbolic_costs_are_strings():
    page = Page(symbolic().to_html())
    assert "FLOPs 10*batch + 5" in page.text and "FLOPs per byte –" in page.text
    assert page.data["totals"]["mrw"] == "6*batch + 8"
    assert [layer["flops"] for layer in table(page.data, "layers")] == ["10*batch", "5"]
    ranks = page.data["ranks"]
    # at batch = 64: 10 * 64 = 640, and 5 more; 6 * 64 + 8 = 392 bytes
    assert (ranks["10*batch"], ranks["10*batch + 5"], ranks["6*batch + 8"]) == ("640", "645", "392")
    assert "5" not in ranks and page_data(html_reports.small())["ranks"] == {}


def test_the_graph_has_the_calls_that_make_each_value():
    """Two calls in a row read the input of the model, then each other; a view and the head follow."""
    flow = page_data(html_reports.chain(2))["flow"]
    assert flow == {"sources": [[-1], [0], [1], [2]], "inputs": ["2 × 3"], "returned": [3]}
    assert page_data(html_reports.small())["flow"] is None  # nothing says which call reads which value


def test_calls_with_equal_layers_share_one_row():
    calls = [html_reports.call("relu", f"layer{i}", 8, 4, 4) for i in range(100)]
    data = page_data(html_reports.report(calls))
    assert (len(data["layers"]["rows"]), len(data["calls"]["rows"])) == (1, 100)


def test_more_quantities_are_columns_of_modules_and_calls_and_those_that_add_up_of_operators():
    """Four additions in half a second are 8 FLOP/s; the product was not measured."""
    report = net(dense("a"), relu("b", seconds=0.5), framework="torch")
    page = report.to_html(columns=["flops@fvcore", "input_shape", "achieved_flops"])
    data = json.loads(re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)[0])
    assert [(each["key"], each["kind"], each["adds"]) for each in data["added"]] == [
        ("flops@fvcore", "flops", True),
        ("input_shape", "text", False),
        ("achieved_flops", "flops", False),
    ]
    values = {name: [row[-3:] for row in data[name]["rows"]] for name in ("nodes", "calls")}
    of_calls = [["16", "(1, 4)", None], ["0", "(1, 4)", "8"]]
    assert values == {"nodes": [["16", "(1, 4)", "8"], *of_calls], "calls": of_calls}
    assert [(row[0], row[-1]) for row in data["operators"]["rows"]] == [("linear", "16"), ("relu", "0")]


def test_measured_time_is_shown_if_it_was_measured():
    assert page_data(html_reports.small())["measured"] is False
    calls = [html_reports.call("relu", "a", 8, 4, 4)._replace(seconds=0.25), html_reports.call("relu", "b", 8, 4, 4)]
    report = html_reports.report(calls)
    data = page_data(report)
    assert data["measured"] is True
    assert [call["seconds"] for call in table(data, "calls")] == [0.25, None]
    assert "Measured time 250 ms" in Page(report.to_html()).text


def test_a_very_deep_model_has_a_page():
    deep = ".".join("m" * 3000)
    data = page_data(html_reports.report([html_reports.call("relu", deep, 8, 4, 4)]))
    assert [node["flops"] for node in table(data, "nodes")] == ["8"] * 3001


def test_a_page_of_one_rank_says_which():
    rank = Rank((("dp", 2), ("tp", 4)), 3, 1234)
    text = Page(html_reports.report([html_reports.call("relu", "act", 5, 4, 4)], rank=rank).to_html()).text
    assert "costs of rank 3 of the mesh dp=2, tp=4, which holds 1,234 parameters" in text


def test_memory_beside_fused_bytes_is_that_without_fusion():
    report = html_reports.step()
    note = "The memory is that of a run without fusion."
    assert note in Page(report.fused("pointwise").to_html()).text and note not in Page(report.to_html()).text


def test_shares_of_blocks_have_bars():
    """1024 of 2816 bytes are 36.36 %."""
    bars = re.findall(r"<rect width='([\d.]+)%' height='100%'/></svg><span>([\d.]+)%<", html_reports.step().to_html())
    assert ("36.36", "36.4") in bars and bars[-1] == ("100.00", "100.0")
