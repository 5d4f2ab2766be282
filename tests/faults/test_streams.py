"""Closed and full streams and disks cost what cannot be written, and no work: the exit code tells of the work."""

import errno
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from maxmargin import LinearSVC
from maxmargin.cli import main
from maxmargin.io import load_model, write_libsvm
from maxmargin.models import writing

FULL = Path("/dev/full")


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    path = tmp_path / "data.svm"
    write_libsvm(path, X, np.where(X[:, 0] > 0.0, 1.0, -1.0))
    return path


@pytest.fixture
def model(data, tmp_path):
    path = tmp_path / "model.mm"
    assert main(["train", str(data), str(path), "--linear", "--quiet"]) == 0
    return path


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


class Full(io.StringIO):
    """A stream without room, whose file is no real one."""

    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


STREAMS = {"none": lambda: None, "closed": closed, "full": Full}


@pytest.mark.parametrize("stream", STREAMS)
def test_what_was_written_to_files_counts_without_standard_output(data, model, tmp_path, monkeypatch, stream):
    """These were tracebacks and exit code 1, although the model was there."""
    other, out = tmp_path / "other.mm", tmp_path / "labels"
    monkeypatch.setattr(sys, "stdout", STREAMS[stream]())
    assert main(["train", str(data), str(other), "--linear"]) == 0
    assert load_model(other).coef_.shape == (1, 3)
    assert main(["train", str(data), str(other), "--linear", "--json"]) == 0
    assert main(["train", str(data), str(other), "--linear", "--max-iter", "1", "--tol", "1e-15"]) == 1
    assert main(["certify", str(data), str(model)]) == 0
    assert main(["certify", str(data), str(model), "--tol", "1e-300"]) == 1
    assert main(["predict", str(data), str(model), str(out)]) == 0
    assert len(out.read_text().splitlines()) == 60


@pytest.mark.parametrize("json_too", [False, True])
@pytest.mark.parametrize("stream", STREAMS)
def test_labels_that_cannot_be_written_are_an_error(data, model, monkeypatch, capsys, stream, json_too):
    monkeypatch.setattr(sys, "stdout", STREAMS[stream]())
    assert main(["predict", str(data), str(model), *(["--json"] if json_too else [])]) == 2
    assert "maxmargin: error: Standard output" in capsys.readouterr().err


@pytest.mark.parametrize("stream", STREAMS)
def test_a_fit_goes_on_without_standard_error(data, model, tmp_path, monkeypatch, stream):
    """Progress lines ended it with exit code 1."""
    monkeypatch.setattr(sys, "stderr", STREAMS[stream]())
    assert main(["train", str(data), str(tmp_path / "other.mm"), "--linear", "--verbose", "--solver", "newton"]) == 0
    X = np.arange(20.0)[:, None]
    assert LinearSVC(verbose=1).fit(X, X[:, 0] > 9.0).duality_gap_ <= 1e-4


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_device_is_noticed_when_it_is_flushed(data, model, tmp_path, monkeypatch, capsys):
    with FULL.open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["certify", str(data), str(model), "--json"]) == 0
        monkeypatch.undo()
    assert "standard output: No space left on device; the rest of the report is lost" in capsys.readouterr().err


def test_predictions_replace_a_file_when_they_are_whole(data, model, tmp_path, monkeypatch, capsys):
    """The old file was destroyed first."""
    out = tmp_path / "labels"
    out.write_text("old\n")
    flush = os.fsync

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    assert main(["predict", str(data), str(model), str(out)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert out.read_text() == "old\n"
    monkeypatch.setattr(writing.os, "fsync", flush)
    assert main(["predict", str(data), str(model), str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["out"] == str(out)
    assert len(out.read_text().splitlines()) == 60
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.svm", "labels", "model.mm"]
