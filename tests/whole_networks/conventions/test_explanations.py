"""What people print for well-known networks, and what it counts."""

from __future__ import annotations

import random
from functools import cache

import pytest

import costcore
from tests.whole_networks import pytorch_models
from tests.whole_networks.conventions import transformers_of_images

pytest.importorskip("torch")


BUILDERS = {
    "resnet50": pytorch_models.resnet50,
    "mobilenet_v2": pytorch_models.mobilenet_v2,
    "vit_b_16": transformers_of_images.ViT,
    "swin_t": transformers_of_images.Swin,
}


@cache
def report(name: str) -> costcore.Report:
    build = BUILDERS[name]
    return costcore.estimate(pytorch_models.without_data(build).eval(), (1, 3, 224, 224), record_api_calls=True)


RESNET50 = {
    "macs": 4_089_184_256,
    "torchvision": 4_089_184_256,
    "deepspeed-macs": 4_089_184_256,
    "calflops-macs": 4_089_184_256,
    "ptflops-aten": 4_089_185_256,
    "torchinfo": 4_089_238_376,
    "torchprofile": 4_100_300_288,
    "fvcore": 4_111_512_576,
    "mmengine": 4_111_512_576,
    "timm": 4_111_512_576,
    "torch-scan": 4_111_916_032,
    "ptflops-modules": 4_121_925_096,
    "ptflops": 4_132_436_968,
    "thop": 4_133_742_592,
    "ultralytics-thop": 4_133_742_592,
    "thop-2019": 4_135_789_592,
    "torch": 8_178_368_512,
    "deepspeed": 8_211_108_352,
    "calflops": 8_211_108_352,
}
"""What these tools print for torchvision's resnet50 at 224 x 224, measured with the versions of the conventions."""


@pytest.mark.parametrize(("convention", "printed"), RESNET50.items(), ids=RESNET50)
def test_resnet50_as_other_tools_print_it(convention, printed):
    assert report("resnet50").under(convention).total == printed


@pytest.mark.parametrize(
    ("network", "number", "convention", "changes"),
    [
        ("resnet50", "4.09G", "macs", ()),
        ("resnet50", "4.11G", "fvcore", ()),
        ("resnet50", "4.12 GMac", "ptflops-modules", ()),
        ("resnet50", "4.13G", "ptflops", ()),
        ("resnet50", "4.14G", "thop-2019", ()),
        ("resnet50", "8.2 GOPS", "deepspeed", ()),
        ("resnet50", "8.18 GFLOPs", "macs", ("doubled",)),
        ("resnet50", "8.21 GFLOPs", "deepspeed", ()),
        ("resnet50", "8.22 GFLOPs", "fvcore", ("doubled",)),
        ("resnet50", 4_109_464_576, "fvcore", ("without linear",)),
        ("resnet50", "4,109,364,224", "fvcore", ("without the last linear and pooling",)),
        ("resnet50", "25.6M params", "parameters", ()),
        ("resnet50", "32.7 GMACs", "macs", ("batch of 8",)),
        ("vit_b_16", "17.58G", "timm", ()),
        ("vit_b_16", "17.56G", "macs", ()),
        ("vit_b_16", "16.87G", "fvcore", ()),
        ("vit_b_16", "16.86G", "ptflops-aten", ()),
        ("vit_b_16", "17.61G", "ptflops", ()),
        ("vit_b_16", "11.3G", "thop", ()),
        ("vit_b_16", "35.1G", "macs", ("doubled",)),
        ("swin_t", "4.5G", "macs", ()),
        ("swin_t", "4.36G", "ptflops-aten", ("without matmul",)),
        ("swin_t", "4.49G", "macs", ()),
        ("mobilenet_v2", "300M", "macs", ("cut, not rounded",)),
        ("mobilenet_v2", "301M", "macs", ()),
        ("mobilenet_v2", "314M", "fvcore", ()),
        ("mobilenet_v2", "327.6M", "thop", ()),
    ],
)
def test_the_first_answer(network, number, convention, changes):
    best = costcore.explain(report(network), number).best
    assert (best.base, best.changes) == (convention, changes)


def test_the_paper_of_resnet_counts_another_variant():
    explanation = costcore.explain(report("resnet50"), "3.8G")
    assert explanation.is_another_network
    assert explanation.best is None
    first, hint, *far_fetched = str(explanation).splitlines()
    assert first.startswith("3.8G: no known convention gives this for this network at this size; another network")
    assert "3,857,973,248 MACs" in hint
    assert far_fetched[0].startswith("Far-fetched: the MACs of all products, divided by 2^30, not 10^9")
    assert far_fetched[-1] == "In MACs alone: 4,089,184,256."


def test_two_digits_do_not_decide():
    explanation = costcore.explain(report("resnet50"), "4.1G")
    assert explanation.is_ambiguous
    assert explanation.best.base == "macs"
    assert "They give 4,089,184,256 to 4,135,789,592, which these digits do not tell apart." in str(explanation)


def test_a_number_of_the_old_thop_in_sentences():
    lines = str(costcore.explain(report("resnet50"), "4.14G")).splitlines()
    assert lines == [
        "4.14G may be what thop 0.0.31 (of 2019) counts: 4,135,789,592.",
        "  MACs: conv 4,087,136,256 (MACs); batch_norm 44,455,936 (4 per input element); linear 4,095,000 (2 per MAC "
        "\N{MINUS SIGN} 1 per output element); avg_pool 102,400 (50 per output element)",
        "It is not decisive: rules that are equally plausible give other numbers nearby.",
        "Chance: of the numbers with 3 digits within 2% of it, 35% have a reading as plausible; 4 digits would decide.",
        "In MACs alone: 4,089,184,256.",
    ]


@pytest.mark.parametrize("digits", [3, 4, 6])
def test_random_numbers_are_not_asserted(digits):
    """Of 60 numbers within 2 % of the MACs about as many have an explanation as is stated, and few are asserted.

    A number that is asserted has a chance of at most 5 %, or 10 % if it is the plain MACs.
    """
    rng = random.Random(0)
    found = []
    for _ in range(60):
        number = 4_089_184_256 * rng.uniform(0.98, 1.02)
        found.append(costcore.explain(report("resnet50"), float(f"{number:.{digits - 1}e}"), digits))
    explained = [each for each in found if each.best is not None]
    assert sum(each.decides for each in found) <= 8
    assert all("may be" in str(each) for each in explained if not each.decides)
    assert all(each.is_ambiguous for each in explained if not each.decides)
    if digits == 6:
        assert len(explained) <= 3


def test_digits_that_decide():
    """Of 4.06G to 4.22G, 17 numbers, six are the count of a tool, 4.09G to 4.14G; eight digits are thop's alone."""
    few, many = (costcore.explain(report("resnet50"), text) for text in ("4.14G", "4.1357896G"))
    assert (few.decides, few.digits_needed) == (False, 4) and 0.3 < few.coincidence < 0.4
    assert many.decides and many.digits_needed == 8 and many.coincidence < 1e-4
    assert str(many).startswith("4.1357896G is what thop 0.0.31 (of 2019) counts")


def test_a_tool_is_older_than_the_number():
    """thop halved its norms in 2020: a number of 2019 is not that of the later rules, and costcore is of 2026."""
    number = "4,133,742,592"
    assert costcore.explain(report("resnet50"), number).best.base == "thop"
    assert costcore.explain(report("resnet50"), number, year=2019).best is None
    total = report("resnet50").total_report["flops"]
    (own,) = costcore.explain(report("resnet50"), total).answers[0].readings
    assert own.base == "costcore" and own.price == 3
    assert "costcore" not in str(costcore.explain(report("resnet50"), total, year=2021))


def test_the_owner_of_a_table_comes_first():
    """fvcore, mmengine and timm count 4,111,512,576: the table is timm's, so timm is meant."""
    explanation = costcore.explain(report("resnet50"), "4.11G", source="timm")
    assert explanation.best.base == "timm"
    assert costcore.explain(report("resnet50"), "4.13G", source="thop").best.base == "thop"
    with pytest.raises(ValueError, match="source"):
        costcore.explain(report("resnet50"), "4.11G", source="nobody")


def test_nothing_near():
    explanation = costcore.explain(report("resnet50"), "5.5G")
    assert explanation.answers == ()
    assert [reading.base for reading in explanation.nearest] == ["thop-2019", "ultralytics-thop", "ptflops"]
    assert explanation.to_dict()["another_network"] is True


def test_other_sizes_are_tried_last():
    def at(side):
        return lambda: costcore.estimate(
            pytorch_models.without_data(pytorch_models.resnet50).eval(), (1, 3, side, side), record_api_calls=True
        )

    best = costcore.explain(report("resnet50"), "5.34G", sizes={"256x256": at(256), "64x64": at(64)}).best
    assert (best.base, best.size, best.value) == ("macs", "256x256", 5_340_348_416)


def test_ptflops_and_timm_of_a_transformer_reconciled():
    result = costcore.reconcile(report("vit_b_16"), "ptflops", "timm")
    assert {line.op: line.amount for line in result.lines} == {
        "linear": -16_340_968,  # the bias
        "layer_norm": 15_129_600,  # 1 to 5 per element
        "gelu": -14_524_416,  # 2 to 0
        "attention": -7_404_048,  # softmax and scaling
        "conv": -150_528,  # the bias
    }
    assert result.difference == -23_290_360 == sum(line.amount for line in result.lines)


def test_timm_and_torchvision_reconciled():
    result = costcore.reconcile(report("resnet50"), "timm", "torchvision")
    assert [(line.op, line.amount, line.n_calls, line.old, line.new) for line in result.lines] == [
        ("batch_norm", -22_227_968, 53, "2 per input element", "not counted"),
        ("avg_pool", -100_352, 1, "1 per input element", "not counted"),
    ]
    assert result.totals == (4_111_512_576, 4_089_184_256)


@pytest.mark.parametrize("network", ["resnet50", "mobilenet_v2"])
@pytest.mark.parametrize(("old", "new"), [("ptflops", "timm"), ("thop", "deepspeed"), ("torchinfo", "costcore")])
def test_the_lines_add_up(network, old, new):
    result = costcore.reconcile(report(network), old, new)
    assert result.lines
    assert sum(line.amount for line in result.lines) == result.difference == result.totals[1] - result.totals[0]


def test_two_networks_reconciled():
    result = costcore.reconcile(report("mobilenet_v2"), "timm", "thop", other=report("resnet50"))
    assert result.totals == (314_193_216, 4_133_742_592)
    assert sum(line.amount for line in result.lines) == result.difference
