"""What the clients decide together about a class is what one client with all rows would decide."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.communicators import Counting, run_in_process
from maxmargin.numerics.inquiries import Guess
from maxmargin.numerics.selection import TRIES, Least, Scale, SoftLeast, looped, settled


def requests_of(t, caps, gamma=0.3):
    capped = np.log(caps)
    return [
        Least(t, caps, 1.0, False),
        Scale(t, capped, False),
        SoftLeast(t, capped, gamma, False),
        Least(t, np.ones(t.size), 1.0, True),
        Scale(t, np.zeros(t.size), True),
        SoftLeast(t, np.zeros(t.size), gamma, True),
    ]


def together(t, caps, cuts, gamma=0.3, tries=TRIES):
    shards = list(zip(np.split(t, cuts), np.split(caps, cuts), strict=True))

    def program(communicator, shard):
        counting = Counting(communicator)
        return settled(counting, requests_of(*shard, gamma), tries), counting.traffic

    return run_in_process(program, shards)


def same(sharded, serial, spread):
    for found, truth in zip(sharded, serial, strict=True):
        np.testing.assert_allclose(found, truth, rtol=1e-11, atol=1e-11 * (1.0 + spread))


numbers = st.one_of(st.floats(-50.0, 50.0), st.sampled_from([-1.0, 0.0, 2.5]))  # equal ones are likely


@settings(max_examples=60, deadline=None)
@given(
    st.lists(numbers, min_size=1, max_size=40),
    st.floats(0.01, 1.0),
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.booleans(),
)
def test_clients_agree_with_one(t, slack, seed, size, one_by_one):
    rng = np.random.default_rng(seed)
    t = np.array(t)
    caps = rng.uniform(0.1, 1.0, t.size)
    caps *= (1.0 + 3.0 * slack) / caps.sum()
    cuts = np.sort(rng.integers(0, t.size + 1, size - 1))  # some have no row
    serial = [request.alone() for request in requests_of(t, caps)]
    for answers, _ in together(t, caps, cuts, tries=(1, TRIES)[seed % 2]):
        same(answers, serial, np.abs(t).max())


@pytest.mark.parametrize(("tries", "rounds", "numbers"), [(TRIES, 12, 100), (1, 40, 20)])
@pytest.mark.parametrize("spread", [1e-6, 1.0, 2000.0])
def test_many_rows_few_rounds_of_few_numbers(spread, tries, rounds, numbers):
    """2-25, 2-27: from nothing; for 20,000 rows that are sorted by client."""
    rng = np.random.default_rng(1)
    t = spread * np.sort(rng.standard_normal(20_000))  # the first client has the smallest
    caps = np.full(t.size, 1 / 3000)
    serial = [request.alone() for request in requests_of(t, caps)]
    for answers, traffic in together(t, caps, [100, 7000], tries=tries):
        same(answers, serial, 4.0 * spread)
        assert traffic.rounds <= rounds
        assert traffic.scalars <= numbers * traffic.rounds


def test_a_good_guess_saves_rounds_and_a_bad_one_does_no_harm():
    """2-27: what an answer was a step before is where it is looked for."""
    rng = np.random.default_rng(2)
    t, log_caps = rng.standard_normal(3000), np.full(3000, -math.log(700.0))
    truth = Scale(t, log_caps, False).alone()
    border = Least(t, np.exp(log_caps), 1.0, False).alone()[1]

    def program(communicator, some):
        rounds = []
        for wrong in (1e-4, math.nan, 300.0, -300.0):
            counting = Counting(communicator)
            scale = Scale(t[some], log_caps[some], False, Guess(truth + wrong, abs(wrong)))
            nearest = Least(t[some], np.exp(log_caps[some]), 1.0, False, Guess(border + wrong, abs(wrong)))
            found, (_, edge) = settled(counting, [scale, nearest])
            assert (found, edge) == (pytest.approx(truth, abs=1e-11), border)
            rounds.append(counting.traffic.rounds)
        return rounds

    for good, without, *_ in run_in_process(program, np.array_split(np.arange(3000), 3)):
        assert good <= 2 < without


@pytest.mark.parametrize("cap", [0.2, 0.004])
def test_the_loop_of_the_paper_over_clients(cap):
    """2-25: the shifts of the exact selection, for 4 numbers a round, of which each but the last cuts a row."""
    rng = np.random.default_rng(4)
    logs, log_caps = 3.0 * rng.standard_normal((2, 400)), np.full(400, math.log(cap))
    exact = [Scale(own, log_caps, False).alone() for own in logs]
    rows_at_their_caps = max(np.count_nonzero(own + shift > log_caps) for own, shift in zip(logs, exact, strict=True))

    def program(communicator, some):
        counting = Counting(communicator)
        return looped(counting, list(logs[:, some]), [log_caps[some]] * 2), counting.traffic

    for shifts, traffic in run_in_process(program, [np.arange(250), np.arange(250, 400)]):
        np.testing.assert_allclose(shifts, exact, rtol=1e-12)
        assert traffic.scalars == 4 * traffic.rounds
        assert 3 <= traffic.rounds <= 2 + rows_at_their_caps


def test_caps_that_fill_the_total_exactly():
    """A sum of caps that is 1 but for rounding ends at the same row, whoever adds them up."""
    for count in range(2, 60):
        t, caps = np.arange(80.0), np.full(80, 1.0 / count)
        value, border = Least(t, caps, 1.0, False).alone()
        assert border == count - 1
        for answers, _ in together(t, caps, [13, 29]):
            assert answers[0][1] == border
            assert answers[0][0] == pytest.approx(value, rel=1e-12)


def test_all_caps_are_needed():
    t, caps = np.zeros(8), np.full(8, 0.125)
    for answers, _ in together(t, caps, [3]):
        assert answers[1] >= math.log(0.125) - 1e-12
        assert answers[2][0] == pytest.approx(0.3 * math.log(0.125))
