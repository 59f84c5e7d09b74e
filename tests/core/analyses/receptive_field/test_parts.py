"""Parts of receptive fields: periodic maps against explicit sets of positions, choice of an input, marks, unions."""

from __future__ import annotations

import random

import pytest

from costcore.analyses.receptive_field.dependence import (
    IDENTITY,
    MOST_PHASES,
    AxisFactor,
    Dependence,
    MisalignedError,
    Path,
    PeriodicMap,
    Stencil,
    TooManyPhasesError,
)

CONV = Stencil.window(3, stride=2, padding=1)
TRANSPOSED = Stencil.transposed(5, stride=3, padding=2, dilation=2)


def read_by(taps, position):
    """The positions that a position reads, by the definition of taps."""
    steps, phase = divmod(position, len(taps.offsets))
    return {steps * taps.advance + offset for offset in taps.offsets[phase]}


def seen_through(chain, position):
    """The input positions that a position sees through taps, the last one first: all of them, one by one."""
    positions = {position}
    for taps in reversed(chain):
        positions = {read for each in positions for read in read_by(taps, each)}
    return positions


def mapped(chain):
    result = IDENTITY
    for taps in chain:
        result = result.through(taps)
    return result


def test_a_convolution_sees_its_window():
    # output 5 of a convolution of 3 with stride 2 and padding 1 reads 2 * 5 - 1 = 9 to 9 + 2 = 11
    field = mapped([CONV])
    assert (field(5), field.stride, field.sizes, field(0)) == ((9, 11), 2, (3,), (-1, 1))


def test_sizes_add_up_along_convolutions():
    # 3 + (3 - 1) * 2 + (5 - 1) * 4 = 23, stride 2 * 2 * 1
    field = mapped([CONV, CONV, Stencil.window(5)])
    assert (field.sizes, field.stride) == ((23,), 4)


def test_a_transposed_convolution_has_phases():
    # Position o of a transposed convolution of 5, stride 3, padding 2, dilation 2 reads (o + 2 - 2t) / 3 if whole:
    # o = 0: t = 1 -> 0, t = 4 -> -2.   o = 1: t = 0 -> 1, t = 3 -> -1.   o = 2: t = 2 -> 0 alone.
    assert [read_by(TRANSPOSED, o) for o in (0, 1, 2, 3)] == [{0, -2}, {1, -1}, {0}, {1, -1}]
    # behind a convolution of 3 with stride 3 and padding 1, i sees 3i - 1 to 3i + 1:
    # -2 and 0 give -7 to 1, 9 positions; -1 and 1 give -4 to 4, 9; 0 gives -1 to 1, 3
    field = mapped([Stencil.window(3, stride=3, padding=1), TRANSPOSED])
    assert (field.sizes, field.stride, field(0), field(2)) == ((9, 9, 3), 1, (-7, 1), (-1, 1))


def test_gaps_between_positions_see_nothing():
    # a kernel of 2 with stride 3 reaches positions 3i and 3i + 1, never 3i + 2
    field = mapped([Stencil.transposed(2, stride=3, padding=0)])
    assert [field(o) for o in range(6)] == [(0, 0), (0, 0), None, (1, 1), (1, 1), None]
    assert field.sizes == (1, 1, 0)


def test_the_shortest_period_is_kept():
    assert mapped([Stencil.repeated(2), Stencil.window(2, stride=2)]) == IDENTITY
    assert PeriodicMap(4, ((0, 1), (2, 3))).reduced() == PeriodicMap(2, ((0, 1),))
    assert PeriodicMap(3, ((0, 1), (2, 3))).reduced().period == 2


def test_a_union_is_the_hull():
    left, right = mapped([Stencil.window(3, padding=2)]), mapped([Stencil.window(2)])
    assert left.union(right) == PeriodicMap(1, ((-2, 1),))
    two, three = PeriodicMap(2, ((0, 0), (1, 2))), PeriodicMap(3, ((0, 0), (1, 1), (2, 9)))
    both = two.union(three)
    assert both.period == 6 and all(
        both(o) == (min(two(o)[0], three(o)[0]), max(two(o)[1], three(o)[1])) for o in range(-7, 20)
    )


def test_strides_that_differ_are_misaligned():
    with pytest.raises(MisalignedError):
        IDENTITY.union(mapped([CONV]))


def test_a_flip_reverses():
    field = mapped([CONV, Stencil.every(-1, 7)])
    assert (field(0), field(7), field.stride) == ((13, 15), (-1, 1), -2)


def random_taps(rng):
    kind = rng.randrange(5)
    if kind == 0:
        return Stencil.window(rng.randint(1, 5), rng.randint(1, 3), rng.randint(-1, 3), rng.randint(1, 3))
    if kind == 1:
        return Stencil.transposed(rng.randint(1, 5), rng.randint(1, 3), rng.randint(0, 3), rng.randint(1, 3))
    if kind == 2:
        return Stencil.repeated(rng.randint(1, 3))
    if kind == 3:
        return Stencil.every(rng.choice((-2, -1, 1, 2)), rng.randint(-3, 3))
    phases = tuple(tuple(rng.sample(range(-4, 5), rng.randint(0, 3))) for _ in range(rng.randint(1, 3)))
    return Stencil(rng.randint(1, 3), phases)


@pytest.mark.parametrize("seed", range(200))
def test_chains_see_what_their_positions_read(seed):
    rng = random.Random(seed)
    chain = [random_taps(rng) for _ in range(rng.randint(1, 5))]
    field = mapped(chain)
    for position in range(-5, 3 * field.period + 5):
        seen = seen_through(chain, position)
        assert field(position) == ((min(seen), max(seen)) if seen else None)


def test_a_path_is_lost_with_what_is_unknown_or_misaligned():
    path = Path(IDENTITY, (AxisFactor(0, 4),))
    assert Dependence(path).with_marks_of(Dependence(global_by="a", bounded="b", wrapped="c")).path == path
    assert Dependence(path).with_marks_of(Dependence(unknown="a")).path is None
    assert Dependence(path).with_marks_of(Dependence(misaligned="a")).path is None
    assert Dependence(path, misaligned="a").with_marks_of(Dependence()).path is None


def test_windows_of_long_kernels_reach_from_the_first_to_the_last_tap():
    """A kernel of 40 behind one of a period of three: 3 positions of an upsampling are one of the input."""
    repeated = IDENTITY.through(Stencil.repeated(3))
    found = repeated.through(Stencil.window(40, 1, 2))
    assert [found(position) for position in (0, 1, 2, 3)] == [
        ((position - 2) // 3, (position + 37) // 3) for position in (0, 1, 2, 3)
    ]


def test_maps_of_4096_phases_are_the_longest():
    assert IDENTITY.through(Stencil.repeated(MOST_PHASES)).period == MOST_PHASES
    with pytest.raises(TooManyPhasesError):
        IDENTITY.through(Stencil.repeated(MOST_PHASES + 1))
    every = IDENTITY.through(Stencil.repeated(MOST_PHASES)).through(
        Stencil.every(MOST_PHASES)
    )  # as many repeats of one phase
    assert (every.period, every(5)) == (1, (5, 5))
    assert IDENTITY.through(Stencil.repeated(6)).through(Stencil.every(4)) == PeriodicMap(2, ((0, 0), (0, 0), (1, 1)))
    two, other = IDENTITY.through(Stencil.repeated(2)), IDENTITY.through(Stencil.every(3)).through(Stencil.repeated(6))
    assert two.union(other).period == 6
    with pytest.raises(MisalignedError):
        IDENTITY.union(two)
