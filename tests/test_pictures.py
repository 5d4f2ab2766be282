"""The examples behind docs/pictures.md and docs/stochastic.md draw what was computed, and that is what theory says."""

import importlib
import sys

import numpy as np
import pytest

from test_docs import ROOT


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))

    def load(name):
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return load


def test_the_pictures_show_what_was_computed(example, tmp_path):
    """Items 0-28, 0-30, 1-12, 2-14, 3-26, 4-04, 4-06, 4-17, 4-22, 4-25."""
    module = example("pictures")
    found = module.main(["--figures", str(tmp_path)])
    model, X, y, kinds = found["margin"]
    scores = y * model.decision_function(X)
    np.testing.assert_allclose(scores[kinds[0]], 1.0, atol=2e-3)
    assert ((scores[kinds[1]] < 1.0) & (scores[kinds[1]] >= 0.0)).all()
    assert (scores[kinds[2]] < 0.0).all()
    assert sum(kind.sum() for kind in kinds) == model.support_.size
    A, B, hulls = found["hulls"]
    (street, ends), (reduced, ends_reduced) = hulls.values()
    assert np.linalg.norm(ends[0] - ends[1]) == pytest.approx(street.distance, rel=1e-6)
    assert street.distance < reduced.distance
    assert reduced.eta.max() <= 0.35 * (1.0 + 1e-9)
    np.testing.assert_allclose(ends_reduced, [A.T @ reduced.eta, B.T @ reduced.xi])
    for best, inside in found["pairs"]:
        assert (inside >= -1e-12).all()
        assert (inside <= 1.0 + 1e-12).all()
        assert np.isfinite(best).all()
    assert any(not np.allclose(best, inside) for best, inside in found["pairs"])  # one is cut
    linear, quadratic = found["programs"]
    assert set(linear) <= {0.0, 1.0}
    assert ((quadratic > 0.0) & (quadratic < 1.0)).all()
    assert all(0.0 < share < 0.5 for share in found["unsure"])
    of_machine, of_neighbour = found["flips"]
    assert of_machine < of_neighbour
    assert all((tmp_path / f"pictures_{name}.svg").stat().st_size < 400_000 for name in ("margins", "duals", "classes"))


def test_the_sorted_vector_and_its_set(example):
    """Items 0-32 and 0-34: against a linear program over all directions, for few samples."""
    module = example("pictures")
    v, order, low, high, a = module.sorted_violations(n=30, q=6)
    assert (np.diff(v[order]) >= 0.0).all()
    assert len(low) == len(high) == 3
    assert v[high].min() >= v[low].max()  # something is gained by moving both ways
    assert ((a >= 0.0) & (a <= 1.0)).all()


def test_rules_smoothing_and_balls(example, tmp_path):
    """Items 0-08, 0-18 to 0-20 and 1-05 in the figure."""
    ((marks, rules), (accuracies, counts), sizes, (longest, excess, deviation)), path = example("convergence").main(
        ["--quick", "--figures", str(tmp_path)]
    )
    assert marks[-1] == 200
    assert rules["polyak"][-1] < rules["constant"][-1]
    assert rules["inverse"][-1] < rules["inverse"][0]
    assert counts["proximal_gradient"][-1] > 3 * counts["fista"][-1]
    assert accuracies[0] == 0.1
    for m, one, other in zip(sizes, excess, deviation, strict=True):
        assert one <= longest / np.sqrt(m)
        assert other <= 2.0 * longest / np.sqrt(m)
    assert path.stat().st_size < 150_000
