"""A fit that was killed goes on where it was, to the same answer; a file that is not whole is refused."""

import errno
import os

import numpy as np
import pytest

from maxmargin import BoxQP, HullDistance, Problem, Status, minimize
from maxmargin.communicators import run_in_process
from maxmargin.loop.checkpoint import Checkpoints, digest
from maxmargin.operators import KernelGram, Rows, Sharded
from maxmargin.parts.kernels import RBF
from maxmargin.parts.losses import Hinge, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import SMO, Newton, Saddle
from maxmargin.solvers.hulls.saddle import solver as saddle

N = 1200


class Killed(Exception):
    """What a killed process does not have the time to raise."""


def data_of(seed=5):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(N) < 0.4, 1.0, -1.0)
    X = rng.standard_normal((N, 10))
    X[:, 0] += np.where(y > 0, 6.0, 0.0)
    return X / np.linalg.norm(X, axis=1).max(), y


def problem_of(X, y, cap=1.0, communicator=None):
    rows = Rows(X)
    return HullDistance(rows if communicator is None else Sharded(rows, communicator), y, np.full(len(y), cap))


def killed_after(iterations):
    def callback(record):
        if record.iterations > iterations:
            raise Killed

    return callback


def same(resumed, whole):
    assert resumed.status is whole.status is Status.CONVERGED
    assert resumed.iterations == whole.iterations
    assert np.array_equal(resumed.point.w, whole.point.w)
    assert np.array_equal(resumed.point.alpha, whole.point.alpha)
    assert resumed.point.b == whole.point.b
    assert resumed.certificate == whole.certificate


OPTIONS = {"all coordinates": {}, "blocks": {"block_size": 4}, "rotated": {"hadamard": True}}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("cap", [1.0, 0.02])
def test_a_killed_fit_goes_on_to_the_same_bits(tmp_path, monkeypatch, name, cap):
    monkeypatch.setattr(saddle, "MAX_STEPS_PER_ROUND", 7)  # many rounds
    solver, problem = Saddle(**OPTIONS[name]), problem_of(*data_of(), cap)
    settings = {"tol": 3e-1 if name == "blocks" else 1e-3, "max_time": 60.0}
    whole = minimize(problem, solver, **settings)
    path, last = tmp_path / "fit", whole.iterations // 2
    with pytest.raises(Killed):
        minimize(problem, solver, checkpoint=path, checkpoint_every=0.0, callback=killed_after(last), **settings)
    assert "fit.0" in os.listdir(tmp_path)
    resumed = minimize(problem, solver, checkpoint=path, **settings)
    assert resumed.history[0].iterations >= last - 7  # not from the beginning
    same(resumed, whole)
    assert not os.listdir(tmp_path)  # nothing is left of a fit that has ended


def test_a_fit_that_was_stopped_goes_on(tmp_path):
    problem = problem_of(*data_of())
    whole = minimize(problem, Saddle(), tol=1e-3)
    first = minimize(problem, Saddle(), tol=1e-3, max_iter=30, checkpoint=tmp_path / "fit")
    assert first.status is Status.MAX_ITER
    resumed = minimize(problem, Saddle(), tol=1e-3, checkpoint=tmp_path / "fit")
    assert resumed.status is Status.CONVERGED
    assert resumed.history[0].iterations == 30
    np.testing.assert_allclose(resumed.certificate.dual, whole.certificate.dual, rtol=1e-3)


def test_clients_go_on_from_the_newest_checkpoint_that_all_have(tmp_path, monkeypatch):
    monkeypatch.setattr(saddle, "MAX_STEPS_PER_ROUND", 7)
    X, y = data_of()
    shards = list(zip(np.split(X, [300, 301]), np.split(y, [300, 301]), strict=True))
    settings = {"tol": 1e-3, "max_time": 60.0}

    def fit(communicator, shard, **more):
        return minimize(problem_of(*shard, communicator=communicator), Saddle(), **settings, **more)

    whole = run_in_process(fit, shards)
    save, deaths = Checkpoints.save, []

    def dying(self, arrays):
        if self.communicator.rank == 1 and self.number == 2:
            deaths.append(self.number)
            raise Killed  # when the others may have written theirs
        save(self, arrays)

    def checkpointed(communicator, shard):
        return fit(communicator, shard, checkpoint=tmp_path / "fit", checkpoint_every=0.0)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "save", dying)
        with pytest.raises(Killed):
            run_in_process(checkpointed, shards)
    assert deaths == [2]

    for again, once in zip(run_in_process(checkpointed, shards), whole, strict=True):
        assert again.history[0].iterations > 0
        same(again, once)
    assert not os.listdir(tmp_path)


def dying_in(rank, number):
    """``save`` of a client that is killed before its checkpoint of this number is in its place."""
    save = Checkpoints.save

    def dying(self, arrays):
        if self.communicator.rank == rank and self.number + 1 == number:
            raise Killed
        return save(self, arrays)

    return dying


def test_clients_agree_after_two_failures_in_a_row(tmp_path, monkeypatch):
    """What one client wrote and the others did not is of a course that nobody goes on with."""
    monkeypatch.setattr(saddle, "MAX_STEPS_PER_ROUND", 7)
    X, y = data_of()
    shards = list(zip(np.split(X, [300, 301]), np.split(y, [300, 301]), strict=True))
    settings = {"tol": 1e-3, "max_time": 60.0}

    def fit(communicator, shard):
        problem = problem_of(*shard, communicator=communicator)
        return minimize(problem, Saddle(), checkpoint=tmp_path / "fit", checkpoint_every=0.0, **settings)

    def numbers():
        files = sorted(tmp_path.iterdir())
        return {file.name: int(np.load(file)["number"]) for file in files if not file.name.endswith(".new")}

    whole = run_in_process(lambda c, shard: minimize(problem_of(*shard, communicator=c), Saddle(), **settings), shards)
    for rank, number in ((1, 3), (0, 4)):
        with monkeypatch.context() as patched:
            patched.setattr(Checkpoints, "save", dying_in(rank, number))
            with pytest.raises(Killed):
                run_in_process(fit, shards)
        if rank == 1:  # rank 0 was faster: as if its file had been moved before the others were told
            os.replace(tmp_path / "fit.0", tmp_path / "fit.0.before")
            with np.load(tmp_path / "fit.0.before") as archive:
                arrays = dict(archive)
            arrays.pop("checksum")
            arrays["number"] = np.array(3)
            arrays["solver_w"] = arrays["solver_w"] + 1.0
            with open(tmp_path / "fit.0", "wb") as file:
                np.savez(file, **arrays, checksum=digest(arrays))
            assert numbers()["fit.0"] == 3
    assert set(numbers().values()) <= {2, 3}

    for again, once in zip(run_in_process(fit, shards), whole, strict=True):
        assert "It went on from a checkpoint after 21 iterations." in again.message
        same(again, once)
    assert not os.listdir(tmp_path)


def test_a_checkpoint_that_others_have_lost_is_told(tmp_path):
    X, y = data_of()
    shards = list(zip(np.split(X, [300]), np.split(y, [300]), strict=True))

    def fit(communicator, shard, **more):
        problem = problem_of(*shard, communicator=communicator)
        return minimize(problem, Saddle(), tol=1e-3, checkpoint=tmp_path / "fit", **more)

    run_in_process(lambda c, shard: fit(c, shard, max_iter=10), shards)
    os.remove(tmp_path / "fit.1")
    for solution in run_in_process(fit, shards):
        assert "none that all had: the fit began anew" in solution.message


def test_no_room_for_a_checkpoint_costs_the_checkpoint_and_not_the_fit(tmp_path, monkeypatch):
    X, y = data_of()
    shards = list(zip(np.split(X, [300]), np.split(y, [300]), strict=True))
    flush = os.fsync

    def full(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("fit.1.new"):
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", full)

    def fit(communicator, shard):
        problem = problem_of(*shard, communicator=communicator)
        return minimize(problem, Saddle(), tol=1e-3, checkpoint=tmp_path / "fit", checkpoint_every=0.0)

    with pytest.warns(UserWarning, match=r"No space left on device: .*fit\.1\.new.*The fit goes on without it"):
        solutions = run_in_process(fit, shards)
    for solution in solutions:
        assert solution.status is Status.CONVERGED
        assert solution.message.count("could not be written") == 1
    assert not os.listdir(tmp_path)  # nobody has a checkpoint that another one lacks


def test_no_certificate_comes_from_a_file(tmp_path):
    """The point of a checkpoint is judged on the rows that are there."""
    problem, file = written(tmp_path)
    with np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    arrays.pop("checksum")
    arrays["best_w"] = np.zeros_like(arrays["best_w"])
    arrays["best_alpha"] = np.zeros_like(arrays["best_alpha"])
    with open(file, "wb") as out:
        np.savez(out, **arrays, checksum=digest(arrays))
    resumed = minimize(problem, Saddle(), tol=1e-12, max_iter=11, checkpoint=tmp_path / "fit")
    assert resumed.history[0].relative_gap > 0.5
    assert problem.certify(resumed.point).primal == pytest.approx(resumed.certificate.primal, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_checkpoint_of_other_rows_is_refused(tmp_path, seed):
    """Same labels, same shape: one claimed 545 to 891 and converged where the truth was 1972.9."""
    (X, y), (_, _file) = data_of(), written(tmp_path)
    rng = np.random.default_rng(seed)
    order = np.flatnonzero(y > 0.0)
    moved = X.copy()
    moved[order] = X[rng.permutation(order)]
    one = X.copy()
    one[rng.integers(N), 3] += 1e-3
    for rows in (moved, one, -X):
        with pytest.raises(ValueError, match="of another fit: its rows are other ones"):
            minimize(problem_of(rows, y), Saddle(), tol=1e-6, max_iter=10, checkpoint=tmp_path / "fit")


def test_the_checkpoint_of_another_kernel_matrix_is_refused(tmp_path):
    X, y = data_of()
    X, y = X[:60], y[:60]

    def problem(X):
        return BoxQP.of(Problem(KernelGram(RBF(0.5), X), y, Hinge(), L2(1.0), np.ones(len(y))))

    minimize(problem(X), SMO(), tol=1e-12, max_iter=5, checkpoint=tmp_path / "fit")
    with pytest.raises(ValueError, match="its rows are other ones"):
        minimize(problem(X * 1.01), SMO(), tol=1e-12, max_iter=5, checkpoint=tmp_path / "fit")
    solution = minimize(problem(X), SMO(), tol=1e-8, checkpoint=tmp_path / "fit")
    assert solution.status is Status.CONVERGED
    assert "It went on from a checkpoint after 5 iterations." in solution.message


def written(tmp_path):
    problem = problem_of(*data_of())
    minimize(problem, Saddle(), tol=1e-6, max_iter=10, checkpoint=tmp_path / "fit")
    return problem, tmp_path / "fit.0"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_truncated_file_is_refused(tmp_path, share):
    problem, file = written(tmp_path)
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"fit\.0 is not a whole checkpoint .* Remove it to start anew"):
        minimize(problem, Saddle(), checkpoint=tmp_path / "fit")


def test_a_garbled_file_is_refused(tmp_path):
    problem, file = written(tmp_path)
    content = file.read_bytes()
    for where in range(len(content) // 8, len(content) - 500, len(content) // 8):
        flipped = bytes(255 - byte for byte in content[where : where + 500])  # zeros might be what is there already
        file.write_bytes(content[:where] + flipped + content[where + 500 :])
        with pytest.raises(ValueError, match="is not a whole checkpoint"):
            minimize(problem, Saddle(), tol=1e-6, max_iter=10, checkpoint=tmp_path / "fit")


def test_the_checkpoint_of_another_version_is_refused(tmp_path):
    """Numbers under names that have another meaning today would be taken for something else."""
    problem = problem_of(*data_of())
    solver = Saddle()
    saved = solver.saved(solver.start(problem, None))
    solver.restored(problem, saved)
    saved["s"] = saved.pop("v")
    with pytest.raises(ValueError, match="written by another version"):
        solver.restored(problem, saved)


def test_a_folder_that_does_not_exist_is_noticed_at_once(tmp_path):
    with pytest.raises(ValueError, match="does not exist; create it"):
        minimize(problem_of(*data_of()), Saddle(), checkpoint=tmp_path / "nowhere" / "fit")


def test_nothing_is_unpickled(tmp_path):
    problem, file = written(tmp_path)
    with np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    assert all(array.dtype != object for array in arrays.values())
    arrays["solver_w"] = np.array([{"a": 1}], dtype=object)
    with open(file, "wb") as out:
        np.savez(out, **arrays)
    with pytest.raises(ValueError, match="is not a whole checkpoint"):
        minimize(problem, Saddle(), checkpoint=tmp_path / "fit")


def test_the_checkpoint_of_another_fit_is_refused(tmp_path):
    (X, y), (_, _file) = data_of(), written(tmp_path)
    path = tmp_path / "fit"
    with pytest.raises(ValueError, match="of another fit: n_samples is 1200 there and 1199 here"):
        minimize(problem_of(X[1:], y[1:]), Saddle(), checkpoint=path)
    for problem, solver in (
        (problem_of(X, y, 0.5), Saddle()),
        (problem_of(X, -y), Saddle()),
        (problem_of(X, y), Saddle(seed=1)),
    ):
        with pytest.raises(ValueError, match="its labels, weights, bounds or options are other ones"):
            minimize(problem, solver, checkpoint=path)
    shards = list(zip(np.split(X, [600]), np.split(y, [600]), strict=True))
    # Whichever client is heard first: the one whose file it is, or one that was told.
    with pytest.raises(ValueError, match=r"size is 1 there and 2 here|checkpoint of client 0 does not belong"):
        run_in_process(lambda c, shard: minimize(problem_of(*shard, communicator=c), Saddle(), checkpoint=path), shards)


def test_solvers_without_a_state_to_save_go_on_from_their_point(tmp_path):
    X, y = data_of()
    problem = Problem(Rows(X), y, SquaredHinge(), L2(1e-3), np.ones(N))
    whole = minimize(problem, Newton(), tol=1e-8)
    with pytest.raises(Killed):
        minimize(
            problem, Newton(), tol=1e-8, checkpoint=tmp_path / "fit", checkpoint_every=0.0,
            callback=killed_after(whole.iterations - 2),
        )  # fmt: skip
    resumed = minimize(problem, Newton(), tol=1e-8, checkpoint=tmp_path / "fit")
    assert resumed.status is Status.CONVERGED
    assert resumed.iterations < whole.iterations
    assert resumed.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-7)
