"""A convention is read from TOML, and whatever is wrong with it is a sentence with its file and key."""

from __future__ import annotations

from dataclasses import fields

import pytest

import costcore
from costcore import CostError, Report, Trace
from tests.core.given_costs import dense, net
from tests.core.traces import Module, Run

WHOLE = """
name = "mine"
tool = "my counter"
version = "3"
unit = "MAC"
calls_it = "flops"
aliases = ["ours"]
description = "What we count."
sources = ["page 3"]
notes = ["Not more."]
[[count]]
by = "module"
live = true
types = "subclasses"
leaf = true
closed = true
listed = ["nn.Dropout"]
alias = 2
per_item = true
outside = ["nn.LSTM"]
bound = { "nn.Own" = ["F.relu"] }
skip_self_attention = true
phases = ["forward", "backward"]
default = "macs"
[count.rules]
"nn.Linear/linear" = "2 * macs"
"nn.ReLU/relu" = 0
"""


def read(tmp_path, text):
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    run = Run(modules={"": Module("Net", bases=("torch.nn.modules.part.Net",))}, frameworks={"torch": "2"})
    return Report(Trace((), run)).under(file).counts.convention


def test_everything_a_file_can_say_is_kept(tmp_path):
    convention = read(tmp_path, WHOLE)
    assert (convention.name, convention.tool, convention.version, convention.unit) == ("mine", "my counter", "3", "MAC")
    assert (convention.calls_it, convention.description, convention.label) == (
        "flops",
        "What we count.",
        "my counter 3",
    )
    assert (convention.aliases, convention.sources, convention.notes) == (("ours",), ("page 3",), ("Not more.",))
    (each,) = convention.counts
    assert (each.by, each.types, each.alias, each.listed) == ("module", "subclasses", 2, ("nn.Dropout",))
    assert each.live and each.leaf and each.closed and each.per_item and each.skip_self_attention
    assert (each.outside, each.bound) == (("nn.LSTM",), {"nn.Own": ("F.relu",)})
    assert each.phases == ("forward", "backward")
    assert {key: rule.text for key, rule in each.rules.items()} == {"nn.Linear/linear": "2 * macs", "nn.ReLU/relu": "0"}
    assert each.default.text == "macs"
    assert convention.n_rules == 3
    assert convention.needs_modules


def test_defaults_are_the_plainest(tmp_path):
    (each,) = read(tmp_path, 'name = "a"\nunit = "OP"\n[[count]]\n[count.rules]\nconv = "macs"').counts
    assert (each.by, each.types, each.phases, [*each.rules]) == ("op", "exact", ("forward",), ["conv"])
    others = {option.name for option in fields(each)} - {"by", "types", "phases", "rules"}
    assert len(others) == 12 and not any(getattr(each, name) for name in others)


def test_a_convention_extends_another(tmp_path):
    text = """
    name = "mine"
    unit = "FLOP"
    extends = "fvcore"
    [[count]]
    live = false
    [count.rules]
    conv = "2 * macs"
    relu = "x"
    [[count]]
    by = "op"
    default = "params"
    """
    first, second = read(tmp_path, text).counts
    (base,) = costcore.conventions()["fvcore"].counts
    assert base.live and not first.live
    assert (first.rules["conv"].text, first.rules["relu"].text) == ("2 * macs", "x")
    assert first.rules["linear"] == base.rules["linear"]
    assert base.rules["conv"].text == "macs"
    assert second.default.text == "params" and not second.rules


def with_line(line):
    return f'name = "mine"\nunit = "MAC"\n{line}\n[[count]]\n[count.rules]\nconv = "macs"'


def in_pass(line):
    return f'name = "mine"\nunit = "MAC"\n[[count]]\n{line}\n[count.rules]\nconv = "macs"'


def rule(line, by="op"):
    return f'name = "mine"\nunit = "MAC"\n[[count]]\nby = "{by}"\n[count.rules]\n{line}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "is not a TOML file"),
        ('unit = "MAC"', "name is missing"),
        ('name = "mine"', "unit is missing"),
        ('name = "mine"\nunit = "GMAC"', "unknown unit 'GMAC' .expected MAC, FLOP, MULT, BOP, OP."),
        ('name = "mine"\nunit = "MAC"', "there is nothing to count"),
        ('name = "mine"\nunit = "MAC"\ncount = 3', r"count must be a list of tables, \[\[count\]\] \(got 3\)"),
        ('name = "mine"\nunit = "MAC"\ncount = [3]', "count must be a list of tables"),
        (with_line('nmae = "x"'), "unknown key 'nmae' .*Did you mean 'name'?"),
        (with_line("version = 3"), "version must be a text .got 3."),
        (with_line('aliases = "x"'), "aliases must be a list of texts .got 'x'."),
        (with_line("notes = [3]"), r"notes must be a list of texts .got \[3\]."),
        (in_pass('lvie = "x"'), "count 1: unknown key 'lvie'.*Did you mean 'live'?"),
        (in_pass('by = "modules"'), "count 1: unknown value of by 'modules' .*Did you mean 'module'?"),
        (in_pass("live = 1"), "count 1, live must be true or false .got 1."),
        (in_pass('leaf = "yes"'), "count 1, leaf must be true or false .got 'yes'."),
        (in_pass('outside = "nn.LSTM"'), "count 1, outside must be a list of texts"),
        (in_pass('phases = ["forwards"]'), "count 1: unknown phase 'forwards' .*Did you mean 'forward'?"),
        (in_pass('types = "all"'), "count 1: unknown value of types 'all' .expected exact, subclasses."),
        (in_pass("alias = true"), "count 1, alias must be a number .got True."),
        (in_pass("alias = 3"), r"count 1: alias must be 0, 1 or 2 \(got 3\)"),
        (in_pass("bound = 3"), "count 1, bound must be a table .got 3."),
        (in_pass('bound = { "nn.X" = "F.relu" }'), "count 1, bound nn.X must be a list of texts"),
        (in_pass("default = true"), "count 1, default must be an expression .got True."),
        (in_pass("default = 1.5"), "count 1, default must be an expression .got 1.5."),
        ('name = "m"\nunit = "MAC"\n[[count]]\nrules = 3', "count 1: rules must be a table .got 3."),
        (rule('conv = "mac"'), "count 1, conv: 'mac' contains an unknown name 'mac' .*Did you mean 'macs'?"),
        (rule('conv = "x ** 2"'), "count 1, conv: 'x ..? 2' contains"),
        (rule('"*" = "macs"', "module call"), "contains an unknown name 'macs' .expected N, "),
        (rule('all = "macs"', "whole"), "contains an unknown name 'macs' .*n_params"),
        (rule('all = "n_params"'), "contains an unknown name 'n_params'"),
    ],
)
def test_what_is_wrong_is_a_sentence_with_file_and_key(tmp_path, text, message):
    with pytest.raises(CostError, match=message) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "mine.toml"))


def test_a_file_that_cannot_be_read_names_itself(tmp_path):
    with pytest.raises(OSError, match=r"lost\.toml cannot be read: No such file"):
        net(dense("a")).under(tmp_path / "lost.toml")
    (tmp_path / "bytes.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(CostError, match=r"bytes\.toml is not a text in UTF-8"):
        net(dense("a")).under(tmp_path / "bytes.toml")


def test_an_unknown_base_names_the_known_ones(tmp_path):
    with pytest.raises(CostError, match=r"mine.toml: extends: unknown convention 'fvcor'.*Did you mean 'fvcore'"):
        read(tmp_path, 'name = "mine"\nunit = "MAC"\nextends = "fvcor"')


@pytest.mark.parametrize("name", sorted(costcore.conventions()))
def test_every_built_in_convention_describes_itself(name):
    convention = costcore.conventions()[name]
    assert convention.name == name
    assert convention.unit in ("MAC", "FLOP", "MULT", "BOP", "OP")
    assert convention.tool and convention.calls_it
    assert convention.description.endswith(".")
    assert all(note.endswith(".") for note in convention.notes)
    assert convention.n_rules > 0
    assert convention.sources or name in ("macs", "mults", "costcore", "costcore-fma2")


def test_names_and_aliases_are_not_taken_twice():
    known = costcore.conventions().values()
    names = [name for convention in known for name in (convention.name, *convention.aliases)]
    assert len(names) == len(set(names))


def test_the_conventions_that_were_promised_are_there():
    promised = (
        "torch fvcore mmengine timm torchvision torchprofile ptflops ptflops-modules ptflops-aten thop thop-2019 "
        "ultralytics-thop torchinfo torch-scan deepspeed deepspeed-macs calflops calflops-macs "
        "chainer-computational-cost 6nd palm megatron mults macs costcore torchstat tf-profiler onnx-tool bops"
    )
    assert set(promised.split()) <= costcore.conventions().keys()
