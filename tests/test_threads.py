"""Threads: pieces, BLAS limits, and fits beside each other."""

import threading

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.datasets import load_digits, make_classification
from threadpoolctl import threadpool_info, threadpool_limits

from maxmargin import SVC
from maxmargin.estimators._machinery.multiclass import most_votes
from maxmargin.threads import GivenUp, Workers, available_threads, given_up_if, go_on, one_blas_thread, workers_for


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_every_piece_is_done_once():
    done = []
    Workers(3).run(lambda pieces: done.extend(pieces), range(100))
    assert sorted(done) == list(range(100))


def test_pieces_within_pieces_do_not_wait_for_each_other():
    workers, done = Workers(2), []

    def outer(pieces):
        for piece in pieces:
            workers.run(lambda inner, piece=piece: done.extend((piece, k) for k in inner), range(5))

    thread = threading.Thread(target=workers.run, args=(outer, range(8)), daemon=True)
    thread.start()
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert len(set(done)) == 40


def test_an_error_in_a_thread_is_raised():
    def fail(pieces):
        for piece in pieces:
            if piece == 7:
                raise RuntimeError("seven")

    with pytest.raises(RuntimeError, match="seven"):
        Workers(3).run(fail, range(20))


@pytest.mark.parametrize("count", [1, 3])
def test_pieces_are_given_up_when_it_is_late(count):
    done = []
    with pytest.raises(GivenUp), given_up_if(lambda: len(done) >= 20):
        Workers(count).run(lambda pieces: done.extend(pieces), range(1000))
    assert 20 <= len(done) < 30
    Workers(count).run(lambda pieces: done.extend(pieces), range(1000))  # nobody is in a hurry any more
    assert len(done) >= 1020


def test_only_those_who_asked_for_it_are_given_up():
    go_on()
    with given_up_if(lambda: True):
        with pytest.raises(GivenUp):
            go_on()
        with given_up_if(lambda: False):
            go_on()
        thread = threading.Thread(target=lambda: others.append(go_on()))
        others = []
        thread.start()
        thread.join()
        assert others == [None]
    go_on()


def test_what_is_finished_is_not_given_up():
    done = []
    with given_up_if(lambda: len(done) >= 100):
        Workers(2).run(lambda pieces: done.extend(pieces), range(100))
    assert sorted(done) == list(range(100))


def test_blas_is_quiet_inside_and_restored_outside():
    before = blas_threads()
    with one_blas_thread:
        assert set(blas_threads()) <= {1}
        with one_blas_thread:
            assert set(blas_threads()) <= {1}
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before


def test_blas_is_restored_after_a_fit_that_fails():
    before = blas_threads()

    def bad_kernel(A, B):
        raise ArithmeticError

    X, y = make_classification(30, random_state=0)
    with pytest.raises(ArithmeticError):
        SVC(kernel=bad_kernel).fit(X, y)
    assert blas_threads() == before


def test_the_default_follows_the_users_limits():
    with threadpool_limits(1, user_api="blas"):
        assert available_threads() == 1
        assert workers_for(None).count == 1
    assert workers_for(3).count == 3
    assert workers_for(-1).count >= 1


@pytest.mark.parametrize("options", [{}, {"multi_class": "ovr"}, {"kernel": "poly"}, {"gamma": 0.001, "C": 10}])
def test_equal_bits_for_any_n_jobs(options):
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    models = [SVC(n_jobs=n_jobs, **options).fit(X, y) for n_jobs in (1, 2, 4)]
    for model in models[1:]:
        assert np.array_equal(model.dual_coef_, models[0].dual_coef_)
        assert np.array_equal(model.decision_function(X), models[0].decision_function(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_eight_fits_from_eight_threads_are_eight_serial_fits():
    X, y = make_classification(1200, 10, flip_y=0.2, random_state=0)
    costs = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]
    before = blas_threads()
    serial = [SVC(C=C, max_iter=30).fit(X, y).dual_coef_ for C in costs]
    at_once = Parallel(8, backend="threading")(delayed(SVC(C=C, max_iter=30, n_jobs=2).fit)(X, y) for C in costs)
    for expected, model in zip(serial, at_once, strict=True):
        assert np.array_equal(model.dual_coef_, expected)
    assert blas_threads() == before


def test_labels_do_not_depend_on_the_precision_of_predict():
    X, y = make_classification(3000, 10, n_classes=3, n_informative=6, flip_y=0.1, random_state=0)
    model = SVC(C=100.0).fit(X, y)
    scores = model._scores(X)
    assert X.shape[0] * model.support_.size >= 1_000_000  # float32 is used
    assert np.array_equal(model.predict(X), model.classes_[most_votes(scores, 3)])
