"""The comment on a pull request: totals and sums by module that fit one screen."""

import pytest

from costcore import compare
from tests.core.given_costs import Step, dense, net, relu

OLD = net(dense("body.0"), relu("body.1"), dense("head.fc"))
NEW = net(dense("body.0"), relu("body.1"), dense("head.fc", 8))


def test_a_comment_states_totals_and_the_modules_that_changed():
    # macs 16 + 16 → 16 + 64; FLOPs 4 more; read 80 + 16 + 80 → 80 + 16 + 288; written 3 × 16 → 2 × 16 + 32
    assert compare(OLD, NEW, names=("main", "mine")).to_comment() == (
        "<!-- costcore diff -->\n"
        "**`main` → `mine`: FLOPs ×2.3333, parameters ×2.5000**\n"
        "\n"
        "| total | old | new | change |\n"
        "|:---|---:|---:|---:|\n"
        "| FLOPs | 36 | 84 | +48 ×2.3333 |\n"
        "| MACs | 32 | 80 | +48 ×2.5000 |\n"
        "| bytes read | 176 B | 384 B | +208 B ×2.1818 |\n"
        "| bytes written | 48 B | 64 B | +16 B ×1.3333 |\n"
        "| parameters | 32 | 80 | +48 ×2.5000 |\n"
        "\n"
        "| module | FLOPs | bytes read and written | parameters |\n"
        "|:---|---:|---:|---:|\n"
        "| `head.fc` | 16 → 64 (×4.0000) | 96 B → 320 B (×3.3333) | 16 → 64 (×4.0000) |\n"
    )


def test_no_change_and_other_calls_of_the_same_cost():
    assert "`old` → `new`: no change**" in compare(OLD, OLD).to_comment()
    pools = [net(Step("pool", "p", add=4, settings={"kernel": (k, k)})) for k in (2, 3)]
    assert "the same costs, other calls**" in compare(*pools).to_comment()


def test_what_only_moves_more_bytes_is_in_the_title():
    more = net(Step("relu", "a", add=4, mread=32, mwrite=16))
    assert "bytes read ×2.0000**" in compare(net(relu("a")), more).to_comment()


def test_added_and_renamed_modules():
    renamed = net(dense("body.0"), relu("body.1"), dense("tail.fc"), dense("extra"))
    lines = compare(OLD, renamed).to_comment().splitlines()
    assert [line for line in lines if line.startswith("| `")] == ["| `extra` | 0 → 16 | 0 B → 96 B | 0 → 16 |"]


def test_modules_are_as_deep_as_their_rows_fit():
    """Twelve layers in four blocks change: the blocks are shown, as twelve rows would be too many."""
    old, new = (net(*(dense(f"blocks.{i // 3}.{i % 3}", width) for i in range(12))) for width in (4, 8))
    rows = [line for line in compare(old, new).to_comment().splitlines() if line.startswith("| `")]
    assert [row.split(" | ")[:2] for row in rows] == [
        [f"| `blocks.{i}`", "48 → 192 (×4.0000)"]
        for i in range(4)  # 3 × 4² and 3 × 8²
    ]


@pytest.mark.parametrize("shape", ["m{0}", "a.b.c.m{0}", "m{0}.x.y"])
def test_a_comment_fits_one_screen(shape):
    old, new = (net(*(dense(shape.format(i), width) for i in range(50))) for width in (4, 8))
    comment = compare(old, new).to_comment()
    assert comment.count("\n") <= 40
    assert ("… and 42 more modules" in comment) == (not shape.startswith("a."))


def test_conversions_have_no_sums_by_module():
    assert "| module |" not in compare(OLD, NEW, by="order").to_comment()


def test_what_is_not_counted_is_named():
    partial = net(dense("a"), Step("wave", "b", known=False))
    assert (
        "- new is partial: not counted: 1 call of 1 unsupported operator (wave)" in compare(OLD, partial).to_comment()
    )
