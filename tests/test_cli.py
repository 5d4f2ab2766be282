"""The command line: what it writes where, its exit codes, and one line instead of a traceback for every mistake."""

import gzip
import io
import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import (
    SVC,
    SVR,
    DistributedSVC,
    Lasso,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Ridge,
    SparseSelector,
)
from maxmargin.cli import main
from maxmargin.cli.arguments import parser
from maxmargin.cli.compiling import common_fits
from maxmargin.cli.output import OPTIONS, plain, sentence
from maxmargin.cli.tables import draw
from maxmargin.io import load_model, read_libsvm, save_model, write_libsvm

IRIS, CODES = load_iris(return_X_y=True)
SPECIES = np.array(["setosa", "versicolor", "virginica"])[CODES]
COLUMNS = ["sepal length", "sepal width", "petal length", "petal width"]
FORMULA = "1/2 |f|^2 + sum_i C_i max(0, 1 - y_i (f(x_i) + b))"


def write_csv(path, columns, rows):
    lines = [",".join(columns)] if columns else []
    lines += [",".join(cell if isinstance(cell, str) else repr(float(cell)) for cell in row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


FILES = {}


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Data files and models that no test changes."""
    folder = tmp_path_factory.mktemp("files")
    FILES["cancer"], FILES["plain"] = folder / "cancer.svm.gz", folder / "cancer.plain"
    write_csv(folder / "iris.csv", [*COLUMNS, "species"], zip(*IRIS.T, SPECIES, strict=True))
    write_libsvm(folder / "iris.libsvm", IRIS, CODES)
    X, y = load_breast_cancer(return_X_y=True)
    for name in ("cancer", "plain"):
        write_libsvm(FILES[name], StandardScaler().fit_transform(X), 2 * y - 1)
    X, y = load_digits(return_X_y=True)
    write_libsvm(folder / "digits.svm.xz", X[:400], y[:400])
    save_model(SVC().fit(IRIS, CODES), folder / "iris.mm")
    save_model(SVC(tol=1e-6).fit(IRIS, SPECIES), folder / "species.mm")
    return folder


@pytest.fixture
def run(files, tmp_path, monkeypatch, capsys):
    """Run a command in an empty directory; names starting with @ are files of the session."""
    monkeypatch.chdir(tmp_path)

    def run_command(*words):
        capsys.readouterr()
        code = main([str(files / word[1:]) if word.startswith("@") else word for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run_command


@pytest.fixture(params=["rich", "plain"])
def table(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setitem(sys.modules, "rich", None)
    else:
        pytest.importorskip("rich")
    return request.param


def in_child(*words, **options):
    """Start ``python -m maxmargin``."""
    return subprocess.Popen(
        [sys.executable, "-m", "maxmargin", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A job in the background ignores Ctrl-C, and so would its children.
        preexec_fn=None if os.name == "nt" else lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


def words_of(text):
    return re.sub(r"[\s─-]+", " ", text)


# --- train ---


def test_train_writes_a_model_and_a_table(run, table, tmp_path):
    code, out, err = run("train", "@iris.csv", "--tol", "1e-6")
    assert (code, err) == (0, "")
    assert "SVC (rbf kernel): 150 samples, 4 features, 3 classes" in out
    assert "Converged: the certified relative duality gap is within the tolerance (1e-06 was asked for)." in out
    assert ("─" in out) == (table == "rich")
    model = load_model(tmp_path / "iris.mm")
    assert model.tol == 1e-6
    assert model.feature_names_in_.tolist() == COLUMNS
    assert model.get_params() == SVC(tol=1e-6).get_params()
    names = ("setosa against versicolor", "setosa against virginica", "versicolor against virginica")
    for solution, name in zip(model.solutions_, names, strict=True):
        count = np.count_nonzero(solution.point.alpha)
        row = f"{name} {solution.certificate.primal:.10g} {solution.certificate.dual:.10g} "
        row += f"{solution.certificate.relative_gap:.2e} {solution.iterations} {solution.seconds:.3f} {count}"
        assert words_of(row) in words_of(out)
    assert out.endswith("Model written to iris.mm\n")


def test_rich_and_plain_tables_have_the_same_content(monkeypatch):
    pytest.importorskip("rich")
    rows = [
        {"name": "[red] against blue", "primal": 1.25, "relative_gap": 3e-7, "support_vectors": 12},
        {"name": "b", "primal": -2e9, "relative_gap": 0.0, "support_vectors": 3},
    ]
    columns = ("problem", "primal", "relative gap", "support vectors")
    rich = draw(columns, rows)
    monkeypatch.setitem(sys.modules, "rich", None)
    plain = draw(columns, rows)
    assert sorted(words_of(rich).split()) == sorted(words_of(plain).split())
    assert plain.splitlines() == [
        "                                 relative  support",
        "problem                  primal       gap  vectors",
        "------------------  -----------  --------  -------",
        "[red] against blue         1.25  3.00e-07       12",
        "b                   -2000000000  0.00e+00        3",
    ]


@pytest.mark.parametrize("columns", ["20", "60", "100"])
def test_numbers_are_whole_in_narrow_terminals(monkeypatch, columns):
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    drawn = draw(("problem", "primal", "dual"), [{"name": "one against two", "primal": 1.23456789, "dual": 1e-30}])
    assert "1.23456789" in drawn
    assert "1e-30" in drawn


def test_train_json_is_one_object_with_the_right_numbers(run, tmp_path):
    code, out, err = run("train", "@iris.libsvm", "model", "--json", "--tol", "1e-6", "--C", "2")
    report = json.loads(out)
    assert (code, err) == (0, "")
    model = load_model("model")
    assert report["command"] == "train"
    assert (report["class"], report["model"], report["n_samples"], report["n_features"]) == ("SVC", "model", 150, 4)
    assert (report["status"], report["converged"], report["tol"]) == ("CONVERGED", True, 1e-6)
    assert report["classes"] == [0, 1, 2]
    assert report["parameters"]["C"] == 2.0
    assert report["primal"] == model.objective_
    assert report["dual"] == model.dual_objective_
    assert report["relative_gap"] == model.duality_gap_
    assert report["support_vectors"] == model.support_.size
    assert [problem["name"] for problem in report["problems"]] == ["0 against 1", "0 against 2", "1 against 2"]
    assert [problem["primal"] for problem in report["problems"]] == [s.certificate.primal for s in model.solutions_]
    assert report["iterations"] == model.n_iter_.sum() == sum(p["iterations"] for p in report["problems"])
    assert report["seconds"] == pytest.approx(sum(s.seconds for s in model.solutions_))
    reference = SVC(C=2.0, tol=1e-6).fit(IRIS, CODES)
    expected = [s.certificate.primal for s in reference.solutions_]
    np.testing.assert_allclose([problem["primal"] for problem in report["problems"]], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("words", "estimator"),
    [
        (["--kernel", "linear"], SVC(kernel="linear")),
        (["-t", "0"], SVC(kernel="linear")),
        (["-t", "1", "-d", "2", "-r", "1", "-g", "0.1"], SVC(kernel="poly", degree=2, coef0=1.0, gamma=0.1)),
        (["--kernel", "laplacian", "--gamma", "auto"], SVC(kernel="laplacian", gamma="auto")),
        (["-c", "0.5", "-m", "10", "--seed", "3"], SVC(C=0.5, cache_size=10.0, random_state=3)),
        (["--class-weight", "balanced", "--multi-class", "ovr"], SVC(class_weight="balanced", multi_class="ovr")),
        (["--intercept", "none", "--solver", "smo"], SVC(intercept=None, solver="smo")),
        (["--intercept", "penalised", "--max-iter", "100000"], SVC(intercept="penalised", max_iter=100_000)),
        (["--loss", "squared_hinge"], SVC(loss="squared_hinge")),
        (["--linear"], LinearSVC()),
        (["--linear", "--loss", "hinge", "--max-time", "60"], LinearSVC(loss="hinge", max_time=60.0)),
        (["--linear", "--intercept", "free", "--multi-class", "ovo"], LinearSVC(intercept="free", multi_class="ovo")),
    ],
)
def test_options_reach_the_estimator_and_nothing_else_does(run, words, estimator):
    code, out, _ = run("train", "@iris.libsvm", "m.mm", "--quiet", *words)
    assert (code, out) == (0, "")
    model = load_model("m.mm")
    assert type(model) is type(estimator)
    assert model.get_params() == estimator.get_params()
    np.testing.assert_array_equal(model.predict(IRIS), estimator.fit(IRIS, CODES).predict(IRIS))


def test_a_kernel_without_a_proof_is_not_a_success(run):
    code, _, err = run("train", "@iris.libsvm", "m.mm", "--kernel", "sigmoid", "--gamma", "0.01", "--coef0", "-0.5")
    assert code == 1
    assert "not positive semi-definite" in err
    model = load_model("m.mm")
    assert (model.kernel, model.gamma, model.coef0) == ("sigmoid", 0.01, -0.5)
    assert model.duality_gap_ == np.inf


def test_many_problems_are_cut_to_the_worst_ten(run):
    code, out, _ = run("train", "@digits.svm.xz")
    assert code == 0
    assert "... and 35 more\n" in out
    assert out.count(" against ") == 10
    gaps = [float(gap) for gap in re.findall(r" (\d\.\d\de[+-]\d+) ", out)]
    assert gaps == sorted(gaps, reverse=True)
    assert "In all 45 problems: worst relative gap" in out
    assert load_model("digits.mm").classes_.tolist() == list(range(10))


def test_compressed_input_and_a_precomputed_kernel(run, tmp_path):
    code, out, _ = run("train", "@cancer.svm.gz", "--json")
    assert (code, json.loads(out)["model"]) == (0, "cancer.mm")
    write_libsvm("kernel.svm", IRIS @ IRIS.T, CODES)
    assert run("train", "kernel.svm", "--kernel", "precomputed", "--quiet") == (0, "", "")
    code, _, err = run("predict", "kernel.svm", "kernel.mm")
    expected = (SVC(kernel="precomputed").fit(IRIS @ IRIS.T, CODES).predict(IRIS @ IRIS.T) == CODES).sum()
    assert (code, f"({expected} / 150)" in err) == (0, True)
    assert run("certify", "kernel.svm", "kernel.mm")[0] == 0


def test_zero_based_files_and_the_number_of_features(run, tmp_path):
    (tmp_path / "zero.svm").write_text("1 0:1 2:2\n-1 0:-1\n")
    assert run("train", "zero.svm", "--quiet", "--zero-based", "--features", "5") == (0, "", "")
    assert load_model("zero.mm").n_features_in_ == 5
    code, out, _ = run("predict", "zero.svm", "zero.mm", "--zero-based")
    assert (code, out) == (0, "1\n-1\n")
    code, _, err = run("train", "zero.svm", "--quiet")
    assert code == 2
    assert "pass --zero-based if" in err


def test_a_missed_tolerance_is_a_line_and_exit_code_1(run):
    code, out, err = run("train", "@cancer.svm.gz", "m.mm", "--C", "100", "--tol", "1e-12", "--max-iter", "3")
    assert code == 1
    assert "Stopped at the iteration limit before the tolerance was reached (1e-12 was asked for)." in out
    assert re.fullmatch(r"maxmargin: warning: SVC: Stopped .* Raise --max-iter or --tol.*\n", err)
    assert "ConvergenceWarning" not in err
    assert load_model("m.mm").max_iter == 3
    code, out, _ = run("train", "@cancer.svm.gz", "m.mm", "--json", "--tol", "1e-12", "--max-iter", "3")
    report = json.loads(out)
    assert (code, report["converged"], report["status"]) == (1, False, "MAX_ITER")
    assert report["problems"][0]["name"] == "1 against -1"


def test_a_warning_names_options_and_not_parameters(run):
    words = ["--linear", "--loss", "hinge", "--C", "100", "--tol", "1e-9", "--max-time", "1e-9"]
    code, _, err = run("train", "@cancer.svm.gz", "m.mm", *words)
    assert code == 1
    assert "Raise --max-time or --tol, or resume with a longer run" in err


def test_progress_goes_to_standard_error_only(run):
    code, out, err = run("train", "@iris.libsvm", "m.mm", "--verbose", "--json")
    assert code == 0
    assert json.loads(out)["converged"]
    assert "block_smo: " in err
    assert not load_model("m.mm").verbose


def test_infinite_numbers_become_null():
    report = {"a": float("inf"), "b": [np.float64("nan"), 1.5], "c": {"d": (-np.inf, np.int64(3), None, "x", True)}}
    assert plain(report) == {"a": None, "b": [None, 1.5], "c": {"d": [None, 3, None, "x", True]}}


def test_labels_that_are_not_ascii(run, tmp_path, monkeypatch):
    write_csv(tmp_path / "data.csv", ["x", "class"], [(0.0, "né"), (1.0, "[bold]"), (0.1, "né"), (0.9, "[bold]")])
    code, out, _ = run("train", "data.csv")
    assert (code, "né against [bold]" in out) == (0, True)
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["predict", "data.csv", "data.mm"]) == 0
    assert raw.getvalue() == b"n\\xe9\n[bold]\nn\\xe9\n[bold]\n"


# --- predict ---


def test_predict_writes_labels_and_the_accuracy(run, tmp_path, files):
    model = load_model(files / "species.mm")
    expected = model.predict(IRIS)
    right = int((expected == SPECIES).sum())
    accuracy = f"Accuracy: {100 * right / 150:.2f} % ({right} / 150)\n"
    code, out, err = run("predict", "@iris.csv", "@species.mm")
    assert (code, out.split("\n")[:-1], err) == (0, expected.tolist(), accuracy)
    code, out, err = run("predict", "@iris.csv", "@species.mm", "out.txt")
    assert (code, out, err) == (0, "", accuracy)
    assert (tmp_path / "out.txt").read_text().split("\n")[:-1] == expected.tolist()
    code, out, err = run("predict", "@iris.csv", "@species.mm", "--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert (report["labels"], report["n_right"], report["accuracy"]) == (expected.tolist(), right, right / 150)
    code, out, _ = run("predict", "@iris.csv", "@species.mm", "out.txt", "--json")
    assert json.loads(out)["out"] == "out.txt"
    assert "labels" not in json.loads(out)


def test_scores_are_exact(run, files):
    expected = load_model(files / "iris.mm").decision_function(read_libsvm(files / "iris.libsvm")[0])
    code, out, _ = run("predict", "@iris.libsvm", "@iris.mm", "--scores")
    assert code == 0
    assert [[float(cell) for cell in line.split(" ")] for line in out.splitlines()] == expected.tolist()
    code, out, _ = run("predict", "@iris.libsvm", "@iris.mm", "--scores", "--json")
    assert json.loads(out)["scores"] == expected.tolist()


@pytest.mark.parametrize("model", [SVC(), SVC(break_ties=True), SVC(multi_class="ovr"), LinearSVC(multi_class="ovo")])
def test_scores_are_computed_once_and_give_the_labels_of_predict(run, monkeypatch, model):
    X = np.round(IRIS)  # coarse, so that votes are tied
    write_libsvm("coarse.svm", X, CODES)
    save_model(model.fit(X, CODES), "m.mm")
    right = int((model.predict(X) == CODES).sum())
    calls, score = [], type(model)._scores
    monkeypatch.setattr(type(model), "_scores", lambda *of: calls.append(of) or score(*of))
    _, _, err = run("predict", "coarse.svm", "m.mm", "--scores")
    assert f"({right} / 150)" in err
    assert len(calls) == 1


def test_predict_takes_missing_columns_for_zero(run, tmp_path, files):
    (tmp_path / "short.svm").write_text("0 1:5.1\n1 2:3\n")
    (tmp_path / "empty.svm").write_text("0\n0\n")
    model = load_model(files / "iris.mm")
    _, out, _ = run("predict", "short.svm", "@iris.mm")
    assert list(map(int, out.split())) == model.predict([[5.1, 0, 0, 0], [0, 3, 0, 0]]).tolist()
    _, out, _ = run("predict", "empty.svm", "@iris.mm")
    assert list(map(int, out.split())) == model.predict(np.zeros((2, 4))).tolist()


def test_columns_are_found_by_name(run, tmp_path):
    run("train", "@iris.csv", "m.mm", "--quiet")
    _, expected, _ = run("predict", "@iris.csv", "m.mm")
    write_csv(tmp_path / "turned.csv", ["species", *COLUMNS[::-1]], zip(SPECIES, *IRIS.T[::-1], strict=True))
    code, out, err = run("predict", "turned.csv", "m.mm", "--target", "species")
    assert (code, out, "Accuracy" in err) == (0, expected, True)
    write_csv(tmp_path / "bare.csv", COLUMNS[::-1], IRIS[:, ::-1])
    assert run("predict", "bare.csv", "m.mm") == (0, expected, "")
    write_csv(tmp_path / "headless.csv", [], IRIS)
    assert run("predict", "headless.csv", "m.mm") == (0, expected, "")
    write_csv(tmp_path / "other.csv", ["a", *COLUMNS[1:]], IRIS)
    code, _, err = run("predict", "other.csv", "m.mm")
    assert (code, "The column 'sepal length' of the training data is missing" in err) == (2, True)
    write_csv(tmp_path / "wide.csv", [*COLUMNS, "extra", "class"], zip(*IRIS.T, CODES, SPECIES, strict=True))
    code, _, err = run("predict", "wide.csv", "m.mm")
    assert (code, "The column 'extra' was not in the training data" in err) == (2, True)


def test_a_named_target_is_never_taken_for_a_feature(run, tmp_path):
    write_csv(tmp_path / "three.csv", ["a", "b", "c", "label"], zip(*IRIS.T[:3], CODES, strict=True))
    code, _, err = run("predict", "three.csv", "@iris.mm")
    assert (code, "There are 3 features, but the model was trained on 4" in err) == (2, True)


def test_unknown_labels_give_no_accuracy(run, tmp_path):
    (tmp_path / "test.svm").write_text("7 1:5.1\n8 2:3\n")
    code, out, err = run("predict", "test.svm", "@iris.mm")
    assert (code, len(out.split())) == (0, 2)
    assert err == "Accuracy: unknown, because no label in the data is a class of the model.\n"
    code, out, err = run("predict", "@iris.libsvm", "@species.mm", "--json")
    assert (code, err, "accuracy" in json.loads(out)) == (0, "", False)
    (tmp_path / "partly.svm").write_text("0 1:5.1 2:3.5 3:1.4 4:0.2\n8 2:3\n")
    assert "(1 / 2)" in run("predict", "partly.svm", "@iris.mm")[2]


def test_output_may_be_a_device(run):
    code, out, _ = run("predict", "@iris.libsvm", "@iris.mm", os.devnull)
    assert (code, out) == (0, "")


# --- certify ---


def test_certify_recomputes_the_gap(run, table, files):
    code, out, err = run("certify", "@iris.csv", "@species.mm")
    assert (code, err) == (0, "")
    assert out.startswith(f"Problem: minimise {FORMULA}\n")
    assert re.search(r"\nCertified: the worst relative gap is \d\.\d\de-\d+, within the tolerance 1e-06\.\n$", out)
    verdict = maxmargin.certify(load_model(files / "species.mm"), IRIS, SPECIES)
    for name, certificate in zip(verdict.names, verdict.certificates, strict=True):
        assert name in out
        assert f"{certificate.primal:.10g}" in out


@pytest.mark.parametrize("command", ["predict", "certify"])
def test_models_without_predictions_are_refused(run, command):
    save_model(SparseSelector(max_features=1).fit(IRIS[:, :3], IRIS[:, 3]), "model.mm")
    code, _, err = run(command, "@iris.csv", "model.mm")
    assert code == 2
    assert "SparseSelector does not predict" in " ".join(err.split())


def test_models_of_quantities_made_in_python_are_used_too(run):
    model = Ridge().fit(IRIS[:, :3], IRIS[:, 3])
    save_model(model, "model.mm")
    write_libsvm("wide.svm", IRIS[:, :3], IRIS[:, 3])
    code, out, err = run("predict", "wide.svm", "model.mm")
    assert code == 0
    np.testing.assert_allclose(list(map(float, out.split())), model.predict(IRIS[:, :3]), rtol=1e-12)
    assert f"R2: {model.score(IRIS[:, :3], IRIS[:, 3]):.4f}" in err
    assert run("certify", "wide.svm", "model.mm")[0] == 0


QUANTITIES = IRIS[:, :3], IRIS[:, 3] + 0.25  # none of which is a whole number
KINDS = {
    "--regression": SVR(),
    "--regression --epsilon 0.3 -c 2 --kernel poly -d 2": SVR(epsilon=0.3, C=2.0, kernel="poly", degree=2),
    "--regression --linear --epsilon 0.1": LinearSVR(epsilon=0.1),
    "--regression --nu 0.3": NuSVR(nu=0.3),
    "--one-class --nu 0.2": OneClassSVM(nu=0.2),
    "--one-class": OneClassSVM(),
}


@pytest.mark.parametrize("words", KINDS)
def test_every_kind_of_machine_is_trained_used_and_judged(run, words):
    X, y = QUANTITIES
    write_libsvm("data.svm", X, y)
    X = read_libsvm("data.svm")[0]
    weights = 0.5 + np.arange(len(y)) % 3
    np.savetxt("weights.txt", weights)
    target = None if "one-class" in words else y
    expected = clone(KINDS[words]).fit(X, target, sample_weight=weights)
    code, out, err = run("train", "data.svm", "m.mm", "--weights", "weights.txt", *words.split())
    assert (code, err) == (0, "")
    assert f"{type(expected).__name__}" in out
    model = load_model("m.mm")
    assert type(model) is type(expected)
    assert model.get_params() == expected.get_params()
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    code, out, err = run("predict", "data.svm", "m.mm", "--json")
    report = json.loads(out)
    assert (code, report["labels"]) == (0, model.predict(X).tolist())
    if target is not None:
        assert report["r2"] == pytest.approx(model.score(X, y))
        assert run("predict", "data.svm", "m.mm", "--scores")[0] == 2
    assert run("certify", "data.svm", "m.mm", "--weights", "weights.txt")[0] == 0
    assert run("certify", "data.svm", "m.mm", "--tol", "1e-9")[0] == 1  # without the weights it is another problem
    code, out, _ = run("info", "m.mm")
    assert code == 0
    assert out.startswith(f"{type(expected).__name__}(")
    assert "relative gap" in out


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", ["libsvm", "csv"])
def test_columns_are_standardised_by_the_model(run, kind):
    """The scaling is part of the model, also for who loads it in Python."""
    code, _, _ = run("train", f"@iris.{kind}", "m.mm", "--scale", "--probability", "--quiet")
    assert code == 0
    model = load_model("m.mm")
    scaler = StandardScaler(with_mean=kind == "csv").fit(IRIS)
    y = SPECIES if kind == "csv" else CODES
    expected = SVC(probability=True).fit(scaler.transform(IRIS), y)
    if kind == "csv":
        expected.feature_names_in_ = np.array(COLUMNS, dtype=object)
        model[-1].feature_names_in_ = expected.feature_names_in_
    np.testing.assert_allclose(model[0].transform(IRIS), scaler.transform(IRIS), rtol=1e-12)
    code, out, _ = run("predict", f"@iris.{kind}", "m.mm")
    assert code == 0
    assert out.split() == list(map(str, expected.predict(scaler.transform(IRIS))))
    assert run("certify", f"@iris.{kind}", "m.mm")[0] == 0
    code, out, _ = run("predict", f"@iris.{kind}", "m.mm", "--proba", "--json")
    report = json.loads(out)
    np.testing.assert_allclose(np.sum(report["probabilities"], axis=1), 1.0)
    assert report["classes"] == expected.classes_.tolist()
    assert "standardised first" in run("info", "m.mm")[1]


def test_cross_validation_writes_no_model(run, tmp_path):
    code, out, _ = run("train", "@iris.libsvm", "--cv", "5", "--scale", "--json")
    report = json.loads(out)
    divide = StratifiedKFold(5, shuffle=True, random_state=0)
    expected = cross_val_score(make_pipeline(StandardScaler(with_mean=False), SVC()), IRIS, CODES, cv=divide)
    np.testing.assert_allclose(report["scores"], expected)
    assert (code, report["score"], report["mean"]) == (0, "accuracy", pytest.approx(expected.mean()))
    assert report["spread"] == pytest.approx(expected.std(ddof=1))
    assert not list(tmp_path.iterdir())
    code, out, _ = run("train", "@iris.libsvm", "--cv", "3")
    assert re.match(r"accuracy of 3 folds: 0\.9\d+, spread 0\.0\d+ \(", out)


def test_quantities_are_not_taken_for_classes(run):
    """Of the 28 numbers of rings of abalones, 378 machines were trained without a word."""
    write_libsvm("odd.svm", *QUANTITIES)
    code, _, err = run("train", "odd.svm")
    assert code == 2
    assert "odd.svm: The target 0.45 is no class, since it is no whole number; add --regression" in err
    write_libsvm("many.svm", IRIS, np.arange(150) % 21)
    code, _, err = run("train", "many.svm", "m.mm", "--quiet", "--max-iter", "1")
    assert "There are 21 different labels, which one against one are 210 machines; add --regression" in err


def test_json_has_the_keys_that_the_page_promises(run):
    page = (Path(__file__).parents[1] / "docs" / "command_line.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z -]+)` \| (`command`.*) \|$", page, flags=re.M))
    promised = {command: set(re.findall(r"`(\w+)`", keys)) for command, keys in rows.items()}
    assert run("train", "@iris.libsvm", "m.mm", "--quiet")[0] == 0
    calls = {
        "train": ("train", "@iris.libsvm", "n.mm"),
        "train --cv": ("train", "@iris.libsvm", "--cv", "2"),
        "predict": ("predict", "@iris.libsvm", "m.mm"),
        "predict --scores": ("predict", "@iris.libsvm", "m.mm", "--scores"),
        "certify": ("certify", "@iris.libsvm", "m.mm"),
        "info": ("info", "m.mm"),
    }
    assert promised.keys() == calls.keys()
    for command, words in calls.items():
        assert set(json.loads(run(*words, "--json")[1])) == promised[command], command


def test_weights_of_classes_by_label(run):
    words = ("--class-weight", "setosa:2,virginica:0.5", "--quiet")
    assert run("train", "@iris.csv", "m.mm", *words)[0] == 0
    assert load_model("m.mm").class_weight == {"setosa": 2.0, "virginica": 0.5}
    assert run("train", "@iris.libsvm", "n.mm", "--class-weight", "1:3", "--quiet")[0] == 0
    assert load_model("n.mm").class_weight == {1: 3.0}
    clients = ("--linear", "--clients", "2", "--tol", "1e-8", "--quiet")
    assert run("train", "@cancer.plain", "o.mm", "--class-weight", "1:3,-1:0.5", *clients)[0] == 0
    X, y = read_libsvm(FILES["plain"])[:2]
    alone = LinearSVC(tol=1e-8, class_weight={1.0: 3.0, -1.0: 0.5}).fit(X, y)
    assert load_model("o.mm").objective_ == pytest.approx(alone.objective_, rel=1e-6)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_scripts_that_the_shell_understands(run, shell, tmp_path):
    code, out, _ = run("completion", shell)
    assert code == 0
    for word in ("train", "certify", "kernel", "laplacian", "one-class"):
        assert word in out
    if shell == "bash" and shutil.which("bash"):
        ask = 'COMP_WORDS=(maxmargin train --ker); COMP_CWORD=2; _maxmargin; echo "${COMPREPLY[@]}"; '
        ask += 'COMP_WORDS=(maxmargin train --kernel la); COMP_CWORD=3; _maxmargin; echo "${COMPREPLY[@]}"; '
        ask += 'COMP_WORDS=(maxmargin pre); COMP_CWORD=1; _maxmargin; echo "${COMPREPLY[@]}"'
        end = subprocess.run(["bash", "-c", out + ask], capture_output=True, text=True, timeout=60)
        assert end.stdout.split() == ["--kernel", "laplacian", "predict"], end.stderr


def test_the_help_fits_a_screen_and_its_examples_work(run, monkeypatch, files, tmp_path):
    code, out, _ = run("--help")
    assert code == 0
    assert len(out.splitlines()) <= 40
    examples = re.findall(r"^  (maxmargin .*)$", out, flags=re.M)
    assert len(examples) == 3
    write_libsvm("heart_scale", IRIS, CODES)
    write_libsvm("abalone", *QUANTITIES)
    for line in examples[1:]:
        for command in line.split(" && "):
            assert run(*command.split()[1:])[0] == 0, command


def test_a_long_fit_shows_its_gap_on_a_terminal(run, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("maxmargin.cli.train.PATIENCE", 0.0)
    assert main(["train", str(FILES["cancer"]), "m.mm"]) == 0
    assert re.search(r"SVC: \d+ iterations .* relative gap .* -> 1e-0", terminal.getvalue())
    assert load_model("m.mm").callback is None
    terminal.truncate(0)
    assert main(["train", str(FILES["cancer"]), "m.mm", "--quiet"]) == 0
    assert not terminal.getvalue()


def test_certify_json_and_exit_codes(run, tmp_path, files):
    verdict = maxmargin.certify(load_model(files / "iris.mm"), IRIS, CODES)
    code, out, _ = run("certify", "@iris.libsvm", "@iris.mm", "--json")
    report = json.loads(out)
    assert (code, report["certified"], report["tol"], report["problem"]) == (0, True, 1e-4, FORMULA)
    assert report["relative_gap"] == pytest.approx(verdict.worst.relative_gap, abs=1e-11)
    for problem, certificate in zip(report["problems"], verdict.certificates, strict=True):
        assert problem["primal"] == pytest.approx(certificate.primal, rel=1e-12)
        assert problem["dual"] == pytest.approx(certificate.dual, rel=1e-12)
        assert problem["gap"] == problem["primal"] - problem["dual"]
    code, out, _ = run("certify", "@iris.libsvm", "@iris.mm", "--tol", "1e-300", "--json")
    assert (code, json.loads(out)["certified"]) == (1, False)
    write_libsvm("scaled.svm", 1.1 * IRIS, CODES)
    code, out, _ = run("certify", "scaled.svm", "@iris.mm", "--tol", "1e-6")
    assert code == 1
    assert "Not certified: the worst relative gap is " in out
    assert ", above the tolerance 1e-06." in out


# --- demo, help, version ---


def test_demo_compares_with_scikit_learn(run, table):
    code, out, err = run("demo")
    assert code == 0
    assert len(err.splitlines()) == 1
    for text in (
        "maxmargin SVC (rbf)",
        "maxmargin LinearSVC",
        "scikit-learn SVC (rbf)",
        "proven",
        "second fit",
        "Try next: ",
    ):
        assert text in out
    assert re.search(r"those of a second fit\. The first .* took\n\d+\.\d\d s more, to load machine code", out)
    assert max(map(len, out.splitlines())) <= 80
    assert out.splitlines()[-1].startswith("Try next: maxmargin train DATA")


def test_demo_times_the_second_fit(run, monkeypatch):
    clock = iter([0.0, 7.0, 7.0, 8.0] * 3)
    monkeypatch.setattr("maxmargin.cli.demo.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    models = json.loads(run("demo", "--json")[1])["models"]
    assert [(model["first_seconds"], model["seconds"]) for model in models] == [(7.0, 1.0)] * 3


def test_demo_json(run):
    code, out, err = run("demo", "--json")
    report = json.loads(out)
    assert (code, err, report["certified"]) == (0, "", True)
    ours, linear, theirs = report["models"]
    assert max(ours["relative_gap"], linear["relative_gap"]) <= 1e-6 < theirs["relative_gap"]
    np.testing.assert_allclose(ours["primal"], theirs["primal"], rtol=1e-2)
    assert all({"seconds", "first_seconds"} <= model.keys() for model in report["models"])
    assert ours["problem"] == theirs["problem"] == FORMULA


def test_compile_goes_through_all_fits(run, monkeypatch):
    done = []
    fits = [(name, partial(done.append, name)) for name in ("one", "another")]
    monkeypatch.setattr("maxmargin.cli.compiling.common_fits", lambda: fits)
    code, out, err = run("compile")
    assert (code, err, done) == (0, "", ["one", "another"])
    assert "2 kinds of fits is stored" in out
    report = json.loads(run("compile", "--json")[1])
    assert report["fits"] == ["one", "another"]
    monkeypatch.setattr(sys, "stderr", terminal := io.StringIO())
    terminal.isatty = lambda: True
    main(["compile"])
    assert "1 of 2: one" in terminal.getvalue()
    assert "2 of 2: another" in terminal.getvalue()


def test_compile_knows_what_people_fit_most():
    names = [name for name, _ in common_fits()]
    for kind in (SVC, SVR, NuSVC, NuSVR, OneClassSVM, LinearSVC, LinearSVR, LogisticRegression, Ridge, Lasso):
        assert any(name.startswith(f"{kind.__name__}(") for name in names), kind
    assert len(set(names)) == len(names)


def train_actions():
    commands = next(action for action in parser()._actions if action.dest == "command").choices
    return {action.dest: action for action in commands["train"]._actions if action.option_strings}


def test_the_help_of_every_option_has_the_default_of_the_estimators():
    told = {name: action.help.partition("(default: ")[2] for name, action in train_actions().items()}
    groups = [SVC(), LinearSVC(), DistributedSVC()], [SVR(), LinearSVR()], [OneClassSVM()]
    for name in OPTIONS:
        having = next(
            ([kind for kind in kinds if hasattr(kind, name)] for kinds in groups if hasattr(kinds[0], name)), []
        )
        having = having or [kind for kind in groups[0] if hasattr(kind, name)]
        values = list(dict.fromkeys(getattr(kind, name) for kind in having))
        if values and name != "verbose":
            words = ["none" if value is None else str(value).removesuffix(".0") for value in values]
            assert told[name] == ", with --linear ".join(words) + ")"
    assert (told["cache_size"], told["tol"]) == ("1000)", "0.0001)")


def test_every_option_of_an_estimator_is_known_by_the_name_of_its_parameter():
    options = {name: action.option_strings[-1] for name, action in train_actions().items()}
    assert {name: options[name] for name in OPTIONS} == OPTIONS
    assert set(options) - set(OPTIONS) == {
        "help", "json", "quiet", "linear", "regression", "one_class", "weights", "scale", "cv",
    }  # fmt: skip


def test_version_and_help(run):
    assert run("--version") == (0, f"maxmargin {maxmargin.__version__}\n", "")
    for words in (["--help"], *([name, "--help"] for name in ("train", "predict", "certify", "compile", "demo"))):
        code, out, err = run(*words)
        assert (code, err, out.startswith("usage: maxmargin")) == (0, "", True)


# --- mistakes ---

MISTAKES = [
    ([], "required: COMMAND; see maxmargin --help."),
    (["fly"], "invalid choice: 'fly'"),
    (["train"], "required: DATA; see maxmargin train --help."),
    (["train", "missing.svm"], "missing.svm: There is no such file"),
    (["train", "."], "This is a directory"),
    (["train", "@iris.csv", "--targ", "species"], "unrecognized arguments: --targ"),
    (["train", "@iris.csv", "--target", "colour"], "No column is named 'colour'"),
    (["train", "@iris.csv", "--features", "4"], "remove --features"),
    (["train", "@iris.csv", "--zero-based"], "remove --zero-based"),
    (["train", "@iris.csv", "--format", "libsvm"], "iris.csv:1:"),
    (["train", "@iris.libsvm", "--target", "y"], "remove --target"),
    (["train", "@iris.libsvm", "--features", "2"], "the last for --features 2; pass a larger --features"),
    (["train", "@iris.libsvm", "--features", "x"], "invalid int value: 'x'"),
    (["train", "@iris.libsvm", "--C", "0"], "'C' parameter of SVC must be a float in the range (0.0, inf"),
    (["train", "@iris.libsvm", "--C", "nan"], "'C' parameter of SVC"),
    (["train", "@iris.libsvm", "--C", "much"], "invalid float value: 'much'"),
    (["train", "@iris.libsvm", "--gamma", "wide"], "'wide' is neither a number nor scale nor auto"),
    (["train", "@iris.libsvm", "--gamma=-1"], "'gamma' parameter of SVC"),
    (["train", "@iris.libsvm", "--tol", "inf"], "'tol' parameter of SVC"),
    (["train", "@iris.libsvm", "--max-time", "0"], "--max-time 0.0: The 'max_time' parameter of SVC"),
    (["train", "@iris.libsvm", "--seed=-1"], "'random_state' parameter of SVC"),
    (["train", "@iris.libsvm", "--kernel", "magic"], "invalid choice: 'magic'"),
    (["train", "@iris.libsvm", "--kernel", "precomputed"], "must be a square matrix"),
    (["train", "@iris.libsvm", "--solver", "magic"], "solver='magic' is unknown; choose one of"),
    (["train", "@iris.libsvm", "--kernel", "rbf", "--solver", "dual_coordinate"], "cannot solve this problem"),
    (["train", "@iris.libsvm", "--class-weight", "heavy"], "invalid choice: 'heavy'"),
    (["train", "@iris.libsvm", "--linear", "--kernel", "rbf"], "--kernel has no effect with --linear"),
    (["train", "@iris.libsvm", "--linear", "--cache-size", "9"], "--cache-size has no effect with --linear"),
    (["train", "@iris.libsvm", "--degree", "2"], "--degree has no effect with --kernel rbf, only with poly."),
    (["train", "@iris.libsvm", "-t", "0", "-g", "1"], "--gamma has no effect with --kernel linear"),
    (["train", "@iris.libsvm", "--quiet", "--json"], "--quiet contradicts"),
    (["train", "@iris.libsvm", "--quiet", "--verbose"], "--quiet contradicts"),
    (["train", "@iris.libsvm", "missing/m.mm"], "missing/m.mm: No file can be written there"),
    (["train", "@iris.libsvm", "."], "directory or a protected file"),
    (["train", "@iris.libsvm", "@iris.libsvm"], "This file is also an input"),
    (["train", "@iris.libsvm", "@iris.csv"], "The file exists and is not a model"),
    (["train", "@iris.libsvm", os.devnull], "The file exists and is not a model"),
    (["train", "@iris.mm"], "is"),
    (["predict", "@iris.csv"], "required: MODEL"),
    (["predict", "@iris.csv", "missing.mm"], "missing.mm: There is no such file"),
    (["predict", "@iris.csv", "@iris.csv"], "This is not a model file"),
    (["predict", "missing.csv", "@iris.mm"], "missing.csv: There is no such file"),
    (["predict", "@cancer.svm.gz", "@iris.mm"], "There are 30 features, but the model was trained on 4"),
    (["predict", "@iris.csv", "@species.mm", "missing/out"], "missing/out: No file can be written there"),
    (["predict", "@iris.csv", "@species.mm", "@species.mm"], "This file is also an input"),
    (["predict", "@iris.csv", "@species.mm", "--features", "4"], "unrecognized arguments: --features"),
    (["certify", "@iris.csv", "@species.mm", "--tol", "0"], "--tol 0 is not a positive number"),
    (["certify", "@iris.csv", "@species.mm", "--tol", "nan"], "--tol nan is not a positive number"),
    (["certify", "@iris.csv", "@iris.mm"], "No label is one of the 3 classes of the model, such as 0"),
    (["certify", "@iris.libsvm", "@species.mm"], "No label is one of the 3 classes of the model, such as setosa"),
    (["train", "@iris.libsvm", "--epsilon", "1"], "--epsilon has an effect only with --regression"),
    (["train", "@iris.libsvm", "--nu", "0.1", "--C", "2"], "--C has no effect with --nu"),
    (["train", "@iris.libsvm", "--nu", "0.1", "--linear"], "--nu contradicts --linear; for a linear kernel"),
    (["train", "@iris.libsvm", "--one-class", "--linear"], "--one-class contradicts --linear"),
    (["train", "@iris.libsvm", "--one-class", "--regression"], "--one-class contradicts --regression"),
    (["train", "@iris.libsvm", "--regression", "--probability"], "--probability has no effect with --regression"),
    (["train", "@iris.csv", "--regression"], "Targets such as 'setosa' are no numbers; leave --regression away"),
    (["train", "@iris.libsvm", "--class-weight", "7:1"], "No label is 7"),
    (["train", "@iris.libsvm", "--weights", "missing"], "missing: There is no such file"),
    (["train", "@iris.libsvm", "--weights", "@iris.csv"], "iris.csv: This is no list of weights"),
    (["train", "@iris.libsvm", "--cv", "1"], "--cv 1 is not a number of folds"),
    (["train", "@iris.libsvm", "--cv", "60"], "--cv 60: n_splits=60 cannot be greater"),
    (["train", "@iris.libsvm", "-t", "4", "--scale"], "--scale standardises features, and --kernel precomputed has"),
    (["train", "@iris.libsvm", "m.mm", "--cv", "3"], "--cv writes no model"),
    (["train", "@iris.libsvm", "--linear", "--clients", "2", "--scale"], "--scale has no effect with --clients"),
    (
        ["predict", "@iris.csv", "@species.mm", "--proba"],
        "The model has no probabilities; train one with --probability",
    ),
    (["predict", "@iris.csv", "@species.mm", "--proba", "--scores"], "not allowed with argument"),
    (["info", "@iris.csv"], "This is not a model file"),
    (["completion", "csh"], "invalid choice: 'csh'"),
    (["demo", "now"], "unrecognized arguments: now"),
]


@pytest.mark.parametrize(("words", "part"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_mistakes_are_one_line_and_exit_code_2(run, tmp_path, words, part):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert part in err
    assert re.fullmatch(r"maxmargin: error: [^\n]+\.\n", err), err
    assert list(tmp_path.iterdir()) == []


BAD_DATA = {
    "one class.csv": "x,class\n1,a\n2,a\n",
    "regression.svm": "0.5 1:1\n1.25 1:2\n0.75 1:3\n",
    "empty.csv": "",
    "infinite.svm": "1 1:inf\n-1 1:1\n",
    "hole.csv": "x,z,class\n1,,a\n2,3,b\n",
    "ragged.csv": "x,z,class\n1,2,a\n2,b\n",
    "words.txt": "to be or not to be\n",
    "broken.svm": "1 1:1 1:2\n",
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_are_one_line_and_exit_code_2(run, tmp_path, name):
    (tmp_path / name).write_text(BAD_DATA[name])
    code, out, err = run("train", name, "m.mm")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"maxmargin: error: [^\n]+\n", err), err
    assert not (tmp_path / "m.mm").exists()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_damaged_archives(run, tmp_path, pack):
    (tmp_path / "a.svm.z").write_bytes(pack(b"1 1:2\n-1 1:3\n" * 100)[:-12])
    code, _, err = run("train", "a.svm.z")
    assert code == 2
    assert re.fullmatch(r"maxmargin: error: a\.svm\.z: The \w+ archive is truncated or corrupt [^\n]+\n", err)


def test_protected_output_is_found_before_training(run, tmp_path, monkeypatch):
    monkeypatch.setattr(SVC, "fit", lambda *_: pytest.fail("trained"))
    (tmp_path / "m.mm").write_bytes(b"")
    monkeypatch.setattr(os, "access", lambda *_: False)
    code, _, err = run("train", "@iris.csv", "m.mm")
    assert (code, "protected file" in err) == (2, True)


def test_other_errors_are_sentences():
    assert sentence(MemoryError()).startswith("There is not enough memory")
    assert sentence(PermissionError(13, "Permission denied", "x")) == "x: Permission denied."
    assert sentence(OSError(28, "No space left on device")) == "No space left on device."
    assert sentence(ValueError("two\n  lines")) == "two lines"


def test_an_interrupt_before_there_is_a_model(run, monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(SVC, "fit", interrupt)
    code, out, err = run("train", "@iris.csv")
    assert (code, out, err) == (130, "", "maxmargin: interrupted; nothing was written.\n")
    assert list(tmp_path.iterdir()) == []


# --- processes ---


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_keeps_the_best_model(tmp_path):
    X, _ = load_digits(return_X_y=True)
    labels = np.random.default_rng(0).integers(0, 3, X.shape[0])  # pure noise and a large C: it would take minutes
    write_libsvm(tmp_path / "noise.svm", X / 16, labels)
    words = ["train", "noise.svm", "--C", "1e6", "--gamma", "0.01", "--tol", "1e-12", "--verbose", "--json"]
    with in_child(*words, cwd=tmp_path) as child:
        progress = b""
        while b"block_smo: " not in progress:
            piece = child.stderr.read(1)
            assert piece, progress
            progress += piece
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert child.returncode == 130, err
    assert b"Traceback" not in err
    assert err.endswith(b"maxmargin: interrupted; the best model so far is in noise.mm.\n")
    report = json.loads(out)
    assert (report["status"], report["converged"]) == ("INTERRUPTED", False)
    model = load_model(tmp_path / "noise.mm")
    assert model.duality_gap_ == report["relative_gap"] > 1e-12
    assert model.predict(X[:5] / 16).shape == (5,)


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_reader_that_leaves_is_no_error(files, tmp_path):
    write_libsvm(tmp_path / "many.svm", np.tile(IRIS, (600, 1)), np.tile(CODES, 600))
    with in_child("predict", tmp_path / "many.svm", files / "iris.mm") as child:
        child.stdout.read(2)
        child.stdout.close()
        err = child.stderr.read()
        assert child.wait(timeout=60) == 0
    assert re.fullmatch(rb"Accuracy: [^\n]+\n", err), err


def test_importing_the_library_imports_neither_the_command_line_nor_rich():
    code = """
import contextlib, sys
with contextlib.suppress(ImportError):
    import sklearn.callback  # imports rich on its own account
before = set(sys.modules)
import maxmargin.estimators
new = set(sys.modules) - before
sys.exit("rich" in new or "maxmargin.cli" in new)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_streams_give_the_same_model(run, tmp_path):
    code, out, _ = run("train", "@cancer.svm.gz", "a.mm", "--linear", "--stream", "--tol", "1e-7", "--json")
    assert code == 0
    code, _, _ = run("train", "@cancer.svm.gz", "b.mm", "--linear", "--tol", "1e-7", "-q")
    streamed, in_memory = load_model(tmp_path / "a.mm"), load_model(tmp_path / "b.mm")
    assert json.loads(out)["primal"] == pytest.approx(in_memory.objective_, rel=1e-7)
    assert streamed.classes_.tolist() == in_memory.classes_.tolist()
    code, out, _ = run("certify", "@cancer.svm.gz", "a.mm", "--stream", "--json")
    assert (code, json.loads(out)["certified"]) == (0, True)
    code, out, err = run("predict", "@cancer.svm.gz", "a.mm", "--stream")
    assert (code, out) == run("predict", "@cancer.svm.gz", "a.mm")[:2]
    assert "Accuracy" in err


def test_streams_of_arrays_have_their_labels_in_a_file(run, tmp_path):
    np.save(tmp_path / "X.npy", IRIS)
    np.save(tmp_path / "y.npy", CODES)
    assert run("train", "X.npy", "a.mm", "--linear", "--stream", "--target", "y.npy", "-q")[0] == 0
    code, out, _ = run("predict", "X.npy", "a.mm", "--stream", "--json")
    assert (code, json.loads(out)["n_samples"]) == (0, 150)
    np.save(tmp_path / "Z.npy", IRIS[:, :3])
    code, _, err = run("predict", "Z.npy", "a.mm", "--stream")
    assert code == 2
    assert "3 features" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("train", "@iris.libsvm", "--stream"), "add --linear"),
        (("train", "@iris.csv", "--stream", "--linear"), "convert it to Parquet"),
        (("train", "@iris.libsvm", "--stream", "--linear", "--format", "csv"), "does not read CSV"),
        (("train", "@iris.libsvm", "--stream", "--linear", "--solver", "dual_coordinate"), "in memory, not in chunks"),
    ],
)
def test_streams_that_are_refused(run, words, sentence):
    code, _, err = run(*words)
    assert code == 2
    assert sentence in err
