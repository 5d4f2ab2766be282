"""What the clients decide together about a class is what one client with all rows would decide."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.communicators import Counting, run_in_process
from maxmargin.numerics import selection
from maxmargin.numerics.selection import Least, Scale, SoftLeast, settled


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


def together(t, caps, cuts, gamma=0.3):
    shards = list(zip(np.split(t, cuts), np.split(caps, cuts), strict=True))

    def program(communicator, shard):
        counting = Counting(communicator)
        return settled(counting, requests_of(*shard, gamma)), counting.traffic

    return run_in_process(program, shards)


def same(sharded, serial, spread):
    for found, truth in zip(sharded, serial, strict=True):
        np.testing.assert_allclose(found, truth, rtol=1e-11, atol=1e-11 * (1.0 + spread))


numbers = st.one_of(st.floats(-50.0, 50.0), st.sampled_from([-1.0, 0.0, 2.5]))  # equal ones are likely


@settings(max_examples=60, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=40), st.floats(0.01, 1.0), st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_clients_agree_with_one(t, slack, seed, size):
    rng = np.random.default_rng(seed)
    t = np.array(t)
    caps = rng.uniform(0.1, 1.0, t.size)
    caps *= (1.0 + 3.0 * slack) / caps.sum()
    cuts = np.sort(rng.integers(0, t.size + 1, size - 1))  # some have no row
    serial = [request.alone() for request in requests_of(t, caps)]
    for answers, _ in together(t, caps, cuts):
        same(answers, serial, np.abs(t).max())


@pytest.mark.parametrize("spread", [1e-6, 1.0, 2000.0])
def test_many_rows_few_rounds(spread, monkeypatch):
    monkeypatch.setattr(selection, "NAMES", 16)
    monkeypatch.setattr(selection, "SAMPLE", 256)
    rng = np.random.default_rng(1)
    t = spread * np.sort(rng.standard_normal(20_000))  # the first client has the smallest
    caps = np.full(t.size, 1 / 3000)
    serial = [request.alone() for request in requests_of(t, caps)]
    for answers, traffic in together(t, caps, [100, 7000]):
        same(answers, serial, 4.0 * spread)
        assert traffic.rounds <= 4 + math.log(20_000 / 16) / math.log(16 / 3)


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
        assert answers[2] == pytest.approx(0.3 * math.log(0.125))
