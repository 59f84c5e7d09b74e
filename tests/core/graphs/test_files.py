"""What frontends of files say of names and of damage."""

import pytest

from costcore import CostError
from costcore.graphs.graph import damaged, in_file, names_of


def test_names_of_operators():
    names = names_of("net", ("Conv",))
    asked = ("net::Any", "Conv", "Any", "other::Conv", 3)
    assert [*map(names, asked)] == [("net::Any",), ("net::Conv",), (), (), ()]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CostError("it is empty"), "a.net: it is empty"),
        (CostError("a.net cannot be read"), "a.net cannot be read"),
        (ValueError("bad\n size"), "a.net: the file is damaged: bad size"),
        (KeyError(), "a.net: the file is damaged: KeyError"),
    ],
)
def test_errors_name_the_file_once(error, message):
    with pytest.raises(CostError) as raised, in_file("a.net"), damaged(KeyError):
        raise error
    assert str(raised.value) == message


def test_other_errors_are_not_damage():
    with pytest.raises(KeyError), in_file("a.net"), damaged():
        raise KeyError
