"""A few hundred cases of the night of faults, one of each kind of process, and what the nights have found."""

import io
import random
import zipfile

import attack_faults
import processes
import pytest
from attack_faults import Night
from damage import damaged, damaged_inside
from formats import HULLS, Case, rows_of_libsvm, wrong_with
from scipy import sparse

from maxmargin import minimize
from maxmargin.cli import main
from maxmargin.io import DataFileError, open_chunks, read_libsvm
from maxmargin.solvers import Saddle

SEED, CASES = 29, 99  # in each of three parts; every hundredth would start processes


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    return Night(tmp_path_factory.mktemp("night"))


@pytest.mark.parametrize("part", range(3))
def test_a_part_of_a_night(night, part):
    first = part * attack_faults.PROCESSES
    ends = {number: night.case(SEED, number) for number in range(first, first + CASES)}
    assert not {number: end for number, end in ends.items() if end[1]}


@pytest.mark.parametrize("kind", [processes.stopped, processes.denied])
def test_processes_of_a_night(night, kind):
    said, found = kind(random.Random(6), night.works)
    assert not found, said


def test_the_judge_notices_what_is_wrong(night, tmp_path):
    """Readers that lose rows, believe damage, or fail with another exception than they should."""
    whole = night.whole["libsvm"]

    def complaints(name, read, content):
        whole = night.whole[name]
        return list(attack_faults._guarded(wrong_with(Case(name, content, "", read, whole.judge), tmp_path / "file")))

    def all_but_one(path):
        X, y = read_libsvm(path)
        return X[:-1], y[:-1]

    assert complaints("libsvm", all_but_one, whole.content) == ["40 rows became 39"]
    assert complaints("libsvm", lambda path: (2.0 * read_libsvm(path)[0], read_libsvm(path)[1]), whole.content)
    assert complaints("npz", lambda path: sparse.csr_array((40, 3)), night.whole["npz"].content)
    (complaint,) = complaints("csv", lambda path: {}["y"], b"")
    assert complaint.startswith("KeyError: 'y'")
    assert rows_of_libsvm(b"\xef\xbb\xbf1 2:3 # 4\n\n#\n") == ([1.0], [{2: 3.0}])


def test_damage_is_the_same_for_the_same_seed(night):
    archive = night.whole["kernel"].content
    for blow in (damaged, damaged_inside):
        assert blow(random.Random(4), archive) == blow(random.Random(4), archive)


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_members_that_are_no_arrays(night, tmp_path):
    """numpy returns the bytes of a member that does not begin as an array does: these were AttributeErrors."""
    members = members_of(night.whole["npz"].content)
    packed(tmp_path / "rows.npz", members | {"shape.npy": b"{}"})
    with pytest.raises(DataFileError, match="its members are no arrays"):
        open_chunks(tmp_path / "rows.npz")
    packed(tmp_path / "rows.npz", members | {"data.npy": members["format.npy"]})
    with pytest.raises(DataFileError, match=r"not a whole \.npz file"):  # was an IndexError
        open_chunks(tmp_path / "rows.npz")
    packed(tmp_path / "rows.npz", members | {"shape.npy": members["data.npy"]})
    with pytest.raises(DataFileError, match="The array has shape ") as caught:
        open_chunks(tmp_path / "rows.npz")
    assert len(caught.value.sentence) < 200  # it quoted the whole array
    packed(tmp_path / "fit.0", members_of(night.whole["checkpoint"].content) | {"remembered.npy": b"\0"})
    with pytest.raises(ValueError, match=r"fit\.0 is not a whole checkpoint \('remembered' is no array\)"):
        minimize(HULLS, Saddle(), tol=1e-2, checkpoint=tmp_path / "fit")


def test_mpirun_that_starts_nothing_is_no_fit_without_the_tolerance(monkeypatch, tmp_path, capsys):
    """Its exit code is 1, as that of such a fit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("maxmargin.cli.train.launch_on_mpi", lambda *_, **__: 1)
    assert main(["train", "data.svm", "m.mm", "--linear", "--engine", "mpi", "--clients", "7"]) == 2
    assert "mpirun did not start 7 ranks; what it has written above says why." in capsys.readouterr().err
