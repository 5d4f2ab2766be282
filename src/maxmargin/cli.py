"""The command line: train, predict, certify, demo.

Results go to standard output, progress, warnings and errors to standard error. The exit code is 0 after success, 1 if
the tolerance was not reached, 2 for bad usage or bad input, and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

import maxmargin
from maxmargin import SVC, DistributedSVC, LinearSVC, Status
from maxmargin.communicators import ClientLost, launch_on_mpi
from maxmargin.communicators.launcher import launched_rank, under_mpirun
from maxmargin.io import DataFileError, load_model, open_chunks, open_shards, read_csv, read_data, save_model
from maxmargin.io.chunks import is_text
from maxmargin.threads import available_threads

SUCCESS, NOT_CONVERGED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

MOST_ROWS = 10
DEMO_TOL = 1e-6
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed", "laplacian")  # the first five in LIBSVM's order
TARGET_NAMES = ("target", "label", "class", "y")

# What an option of `train` is called as a parameter of the estimator.
PARAMETERS = {
    "kernel": "kernel",
    "loss": "loss",
    "C": "C",
    "gamma": "gamma",
    "degree": "degree",
    "coef0": "coef0",
    "class_weight": "class_weight",
    "intercept": "intercept",
    "multi_class": "multi_class",
    "solver": "solver",
    "tol": "tol",
    "max_iter": "max_iter",
    "max_time": "max_time",
    "cache_size": "cache_size",
    "seed": "random_state",
    "verbose": "verbose",
    "engine": "engine",
    "clients": "n_clients",
    "round_timeout": "round_timeout",
    "checkpoint": "checkpoint",
    "checkpoint_every": "checkpoint_every",
    "on_failure": "on_failure",
}
OF_CLIENTS = ("engine", "clients", "scheduler", "round_timeout", "checkpoint", "checkpoint_every", "on_failure")
SILENCE = 2.0  # seconds that the first of several ranks has for its last words
ATTEMPTS = 4  # of a job of MPI, with --on-failure restart
ONLY_WITH_KERNELS = ("kernel", "gamma", "degree", "coef0", "cache_size")
KERNELS_WITH = {
    "gamma": ("rbf", "poly", "sigmoid", "laplacian"),
    "degree": ("poly",),
    "coef0": ("poly", "sigmoid"),
}

# The words of the library for what the command line calls by another name.
_OPTION_WORDS = (
    (re.compile(r"zero_based=True to read_libsvm"), "--zero-based"),
    (re.compile(r"\bzero_based\b"), "--zero-based"),
    (re.compile(r"\bn_features=(\d+)"), r"--features \1"),
    (re.compile(r"\bn_features\b(?!_)"), "--features"),
    (re.compile(r"(remove|pass) (target|format)\b"), r"\1 --\2"),
    (re.compile(r"\bn_clients\b"), "--clients"),
    (re.compile(r"\bengine='(\w+)'"), r"--engine \1"),
    (re.compile(r"\bmax_(iter|time)\b"), r"--max-\1"),
    (re.compile(r"\b(Raise|or) tol\b"), r"\1 --tol"),
    (re.compile(r"\blower C\b"), "lower --C"),
    (re.compile(r", or resume with warm_start=True"), ""),
    (re.compile(r"Resume with warm_start=True"), "Train again for longer"),
)


class CommandError(Exception):
    """Something the user has to change: one sentence."""


class Rows(NamedTuple):
    """Samples for a model; `y` is None if the file has no labels."""

    X: Any
    y: Any
    names: list[str] | None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process unless given.

    Returns
    -------
    int
        The exit code: 0 success, 1 tolerance not reached, 2 bad usage or input, 130 interrupted.

    """
    try:
        with _warnings_as_lines():
            arguments = _parser().parse_args(argv)
            arguments.words = list(sys.argv[1:] if argv is None else argv)
            code: int = arguments.run(arguments)
    except SystemExit as end:  # --help and --version
        code = end.code if isinstance(end.code, int) else SUCCESS
    except KeyboardInterrupt:
        _say("maxmargin: interrupted; nothing was written.")
        code = INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        code = SUCCESS
    except (CommandError, ClientLost, ImportError, ValueError, OSError, MemoryError) as error:
        _complain(error)
        code = BAD_INPUT
    _write("")
    return code


# --- Arguments -------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Reports a wrong usage as an error of ours instead of printing the usage and leaving."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see {self.prog} --help.")


def _parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = _Parser(
        prog="maxmargin",
        description="Support vector machines that prove their answers: every fit ends with a certified duality gap.",
        epilog="Exit codes: 0 success, 1 the tolerance was not reached (a model is still written), 2 bad usage or "
        "input, 130 interrupted (train writes the best model so far).",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"maxmargin {maxmargin.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        command.set_defaults(run=run)
        command.add_argument("--json", action="store_true", help="one JSON object instead of a table; null: not finite")
        return command

    _add_train_arguments(add("train", _train, "Train a classifier, certify it, and write it to a file."))
    predict = add("predict", _predict, "Predict the labels of samples.")
    predict.add_argument("data", metavar="DATA", help="LIBSVM or CSV file; the labels may be unknown")
    predict.add_argument("model", metavar="MODEL", help="a file written by maxmargin train")
    predict.add_argument("out", metavar="OUT", nargs="?", help="where to write (default: standard output)")
    predict.add_argument("--scores", action="store_true", help="write decision values instead of labels")
    _add_data_options(predict)
    certify = add("certify", _certify, "Recompute primal value, dual value and gap of a model on its training data.")
    certify.add_argument("data", metavar="DATA", help="the training data, in the same order")
    certify.add_argument("model", metavar="MODEL", help="a file written by maxmargin train")
    certify.add_argument("--tol", type=float, help="largest relative gap to accept (default: the tol of the model)")
    _add_data_options(certify)
    add("demo", _demo, "Train and certify on bundled data, beside scikit-learn.")
    return parser


def _add_data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("auto", "libsvm", "csv"), default="auto", help="of DATA (default: auto)")
    parser.add_argument("--target", metavar="NAME", help="target column of a CSV or Parquet file: its name")
    parser.add_argument("--zero-based", action="store_true", help="the indices of a LIBSVM file start at 0, not at 1")
    parser.add_argument(
        "--stream",
        action="store_true",
        help="read DATA chunk by chunk, as memory does not hold it: a LIBSVM file, or a Parquet, .npy or .npz file or "
        "directory, with the target column or the .npy file of the labels as --target",
    )


def _add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``train``."""
    parser.add_argument("data", metavar="DATA", help="LIBSVM or CSV file, plain or compressed (.gz, .bz2, .xz)")
    parser.add_argument("model", metavar="MODEL", nargs="?", help="where to write (default: the name of DATA + .mm)")
    _add_data_options(parser)
    parser.add_argument("--features", type=int, metavar="N", help="number of columns of a LIBSVM file")
    parser.add_argument("-q", "--quiet", action="store_true", help="no table; warnings and errors are still shown")

    def add(*names: str, **settings: Any) -> None:
        parser.add_argument(*names, default=argparse.SUPPRESS, **settings)  # the defaults are those of the estimators

    add("--verbose", action="store_const", const=1, help="show a progress line on standard error")
    add("--linear", action="store_true", help="LinearSVC: linear scores, the intercept penalised")
    add("--loss", choices=("hinge", "squared_hinge"), help="of --linear")
    add("-t", "--kernel", type=_kernel_name, choices=KERNELS, help="default: rbf; LIBSVM's numbers 0 to 4 also work")
    add("-c", "--C", type=float, metavar="C", help="weight of the losses (default: 1)")
    add("-g", "--gamma", type=_bandwidth, metavar="GAMMA", help="number, scale or auto (default: scale)")
    add("-d", "--degree", type=int, metavar="N", help="of --kernel poly (default: 3)")
    add("-r", "--coef0", type=float, metavar="R", help="of --kernel poly and sigmoid (default: 0)")
    add("--class-weight", choices=("balanced",), help="give every class the same total weight")
    add("--intercept", choices=("free", "penalised", "none"), help="default: free, with --linear penalised")
    add("--multi-class", choices=("ovo", "ovr"), help="one against one, or one against the rest")
    add("--solver", metavar="NAME", help="default: auto")
    add("--tol", type=float, help="relative duality gap at which to stop")
    add("--max-iter", type=int, metavar="N", help="limit on iterations")
    add("--max-time", type=float, metavar="SECONDS", help="limit on time; the best model so far is kept")
    add("-m", "--cache-size", type=float, metavar="MB", help="memory for kernel rows (default: 200)")
    add("--seed", type=int, metavar="N", help="of solvers that draw random numbers")
    clients = parser.add_argument_group(
        "several processes or machines",
        "DistributedSVC, with --linear: clients that read their own parts of a LIBSVM, Parquet or .npy file. Under "
        "mpirun the ranks are the clients, and no option is needed.",
    )

    def add_of_clients(*names: str, **settings: Any) -> None:
        clients.add_argument(*names, default=argparse.SUPPRESS, **settings)

    add_of_clients("--engine", choices=("in_process", "mpi", "dask"), help="threads, mpirun, or a Dask cluster")
    add_of_clients("--clients", type=int, metavar="N", help="how many (default: one for each processor or worker)")
    add_of_clients("--scheduler", metavar="ADDRESS", help="of a Dask cluster (default: one of this machine)")
    add_of_clients("--round-timeout", type=float, metavar="SECONDS", help="longest wait for a client (default: 60)")
    add_of_clients("--checkpoint", metavar="FILE", help="where to keep the state, and to go on from if it is there")
    add_of_clients("--checkpoint-every", type=float, metavar="SECONDS", help="default: 60")
    add_of_clients("--on-failure", choices=("raise", "restart"), help="what to do if a client is lost (default: raise)")


def _kernel_name(text: str) -> str:
    return KERNELS[int(text)] if re.fullmatch("[0-4]", text) else text


def _bandwidth(text: str) -> str | float:
    if text in ("scale", "auto"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor scale nor auto") from None


def _refuse_idle_options(arguments: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    given = vars(arguments)
    if arguments.stream and "linear" not in given:
        raise CommandError("--stream is for linear scores, since kernels need all samples at hand; add --linear.")
    if "linear" in given:
        for name in ONLY_WITH_KERNELS:
            if name in given:
                raise CommandError(f"{_option(name)} has no effect with --linear; leave one of the two away.")
    elif "loss" in given:
        raise CommandError("--loss has no effect without --linear; add --linear, or leave --loss away.")
    _refuse_idle_options_of_clients(arguments)
    kernel = given.get("kernel", "rbf")
    for name, kernels in KERNELS_WITH.items():
        if name in given and kernel not in kernels:
            allowed = " or ".join(kernels)
            raise CommandError(f"{_option(name)} has no effect with --kernel {kernel}, only with {allowed}.")
    if arguments.quiet and (arguments.json or "verbose" in given):
        raise CommandError("--quiet contradicts --json and --verbose; leave one of them away.")


def _refuse_idle_options_of_clients(arguments: argparse.Namespace) -> None:
    given = vars(arguments)
    if not _has_clients(arguments):
        return
    what = next((_option(name) for name in OF_CLIENTS if name in given), "mpirun")
    if "linear" not in given:
        raise CommandError(f"{what} is for linear scores, since kernels need all samples at hand; add --linear.")
    if arguments.stream:
        raise CommandError(f"--stream has no effect with {what}: every client reads its own part. Leave it away.")
    engine = given.get("engine", "mpi" if under_mpirun() else "in_process")
    if "scheduler" in given and engine != "dask":
        raise CommandError("--scheduler is the address of a Dask cluster; add --engine dask.")
    if under_mpirun() and engine != "mpi":
        raise CommandError(
            f"--engine {engine} contradicts mpirun, whose ranks are the clients; leave one of them away."
        )
    if arguments.format == "csv":
        raise CommandError("Clients do not read CSV files; convert the data to Parquet or LIBSVM.")


def _has_clients(arguments: argparse.Namespace) -> bool:
    return under_mpirun() or any(name in OF_CLIENTS for name in vars(arguments))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


# --- Commands --------------------------------------------------------------------------------------------------------


def _train(arguments: argparse.Namespace) -> int:
    """``maxmargin train``: fit, write the model, report; the exit code."""
    _refuse_idle_options(arguments)
    target = Path(arguments.model or _default_model_name(arguments.data))
    _check_output(target, arguments.data)
    _refuse_to_overwrite_data(target)
    if getattr(arguments, "engine", "") == "mpi" and not under_mpirun():
        return _launch(arguments)
    parameters = {PARAMETERS[name]: value for name, value in vars(arguments).items() if name in PARAMETERS}
    if parameters.get("intercept") == "none":
        parameters["intercept"] = None
    model, n_samples = (_fit_clients if _has_clients(arguments) else _fit_here)(arguments, parameters)
    report = _training_report(model) | {"data": arguments.data, "model": str(target), "n_samples": n_samples}
    if launched_rank() > 0:
        return SUCCESS  # the first rank writes and reports; the launcher would end it if another had failed
    save_model(model.set_params(verbose=type(model)().verbose), target)
    if arguments.json:
        _write_json({"command": "train", **report})
    elif not arguments.quiet:
        _write_training_report(report)
    if report["status"] == Status.INTERRUPTED.name:
        _say(f"maxmargin: interrupted; the best model so far is in {target}.")
        return INTERRUPTED
    return SUCCESS if report["converged"] else NOT_CONVERGED


def _fit_here(arguments: argparse.Namespace, parameters: dict[str, Any]) -> tuple[Any, int]:
    """A model that was fitted by this process, and the number of samples."""
    rows = _read_rows(arguments, arguments.features)
    if getattr(arguments, "kernel", "") == "precomputed":
        rows = rows._replace(X=_dense(rows.X))
    kind: Any = LinearSVC if hasattr(arguments, "linear") else SVC
    model = kind(**parameters).fit(rows.X, rows.y)
    if rows.names is not None:
        model.feature_names_in_ = np.array(rows.names, dtype=object)
    return model, rows.X.shape[0]


def _fit_clients(arguments: argparse.Namespace, parameters: dict[str, Any]) -> tuple[Any, int]:
    """The same by several clients."""
    data = open_shards(
        arguments.data, target=arguments.target, n_features=arguments.features, zero_based=arguments.zero_based
    )
    with _cluster(getattr(arguments, "scheduler", None)):
        model = DistributedSVC(**parameters).fit(data)
    model.classes_ = _whole_labels(model.classes_)
    return model, model.shape_fit_[0]


@contextlib.contextmanager
def _cluster(scheduler: str | None) -> Iterator[None]:
    """Make the cluster of a scheduler the current one."""
    if scheduler is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise CommandError("--scheduler needs Dask; install it with: pip install 'maxmargin[dask]'.") from error
    with Client(scheduler):
        yield


def _launch(arguments: argparse.Namespace) -> int:
    """Run the same command line under mpirun."""
    command = [sys.executable, "-m", "maxmargin", *arguments.words]
    ranks = getattr(arguments, "clients", available_threads())
    return launch_on_mpi(command, ranks, attempts=ATTEMPTS if _restarts(arguments) else 1)


def _restarts(arguments: argparse.Namespace) -> bool:
    return getattr(arguments, "on_failure", "raise") == "restart"


def _predict(arguments: argparse.Namespace) -> int:
    if arguments.out is not None:
        _check_output(Path(arguments.out), arguments.data, arguments.model)
    model = load_model(arguments.model)
    rows = _read_rows_for(model, arguments)
    report: dict[str, Any] = {"data": arguments.data, "model": arguments.model, "n_samples": rows.X.shape[0]}
    labels = model.predict(rows.X)
    values = model.decision_function(rows.X) if arguments.scores else labels
    if arguments.out is not None:
        Path(arguments.out).write_text(_as_lines(values), encoding="utf-8")
        report["out"] = arguments.out
    elif not arguments.json:
        _write(_as_lines(values))
    if rows.y is not None and _has_known_labels(model, rows.y):
        right = int((labels == rows.y).sum())
        report |= {"n_right": right, "accuracy": right / labels.size}
    if arguments.json:
        output = {} if arguments.out else {"scores" if arguments.scores else "labels": values.tolist()}
        _write_json({"command": "predict", **report, **output})
    elif "accuracy" in report:
        _say(f"Accuracy: {100 * report['accuracy']:.2f} % ({report['n_right']} / {labels.size})")
    elif rows.y is not None:
        _say("Accuracy: unknown, because no label in the data is a class of the model.")
    return SUCCESS


def _certify(arguments: argparse.Namespace) -> int:
    """``maxmargin certify``: judge a model on its data; the exit code."""
    if arguments.tol is not None and not 0.0 < arguments.tol < math.inf:
        raise CommandError(f"--tol {arguments.tol:g} is not a positive number; pass one such as 1e-6.")
    model = load_model(arguments.model)
    rows = _read_rows_for(model, arguments)
    if rows.y is None or not _has_known_labels(model, rows.y):
        first = _label_text(model.classes_.tolist()[0])
        raise CommandError(
            f"{arguments.data}: No label is one of the {model.classes_.size} classes of the model, such as {first}; a "
            f"certificate needs the data that the model was trained on."
        )
    verdict = maxmargin.certify(model, rows.X, rows.y)
    tol = float(model.tol) if arguments.tol is None else arguments.tol
    certified = bool(verdict.worst.relative_gap <= tol)
    report = {
        "data": arguments.data,
        "model": arguments.model,
        "problem": verdict.problem,
        "certified": certified,
        "tol": tol,
        **_numbers(verdict.worst),
        "problems": [
            {"name": name, **_numbers(certificate)}
            for name, certificate in zip(verdict.names, verdict.certificates, strict=True)
        ],
    }
    if arguments.json:
        _write_json({"command": "certify", **report})
    else:
        _write_verdict(report)
    return SUCCESS if certified else NOT_CONVERGED


def _demo(arguments: argparse.Namespace) -> int:
    """``maxmargin demo``: the first thing a stranger sees; the exit code."""
    from sklearn import svm
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    models = {
        "maxmargin SVC (rbf)": SVC(tol=DEMO_TOL),
        "maxmargin LinearSVC": LinearSVC(tol=DEMO_TOL),
        "scikit-learn SVC (rbf)": svm.SVC(),
    }
    if not arguments.json:
        _say("Loading the solvers; the very first run compiles them, which can take half a minute ...")
    rows: list[dict[str, Any]] = []
    for name, model in models.items():
        type(model)().fit(X[::20], y[::20])  # so that the time below is that of solving
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
        verdict = maxmargin.certify(model, X, y)
        report = {"model": name, "problem": verdict.problem, **_numbers(verdict.worst)}
        iterations = int(np.max(model.n_iter_))
        rows.append(report | {"iterations": iterations, "seconds": seconds, "support_vectors": model.support_.size})
    proven = all(row["relative_gap"] <= DEMO_TOL for row in rows[:-1])
    if arguments.json:
        _write_json({"command": "demo", "tol": DEMO_TOL, "certified": proven, "models": rows})
    else:
        _write_demo(X.shape, rows, proven)
    return SUCCESS if proven else NOT_CONVERGED


# --- Data ------------------------------------------------------------------------------------------------------------


def _read_rows(arguments: argparse.Namespace, n_features: int | None) -> Rows:
    if arguments.stream:
        return _open_rows(arguments, n_features)
    data = read_data(
        arguments.data,
        target=arguments.target,
        n_features=n_features,
        format=arguments.format,
        zero_based=arguments.zero_based,
    )
    return Rows(data.X, _whole_labels(data.y), data.feature_names)


def _open_rows(arguments: argparse.Namespace, n_features: int | None) -> Rows:
    """Rows that are read chunk by chunk."""
    if arguments.format == "csv":
        raise CommandError("--stream does not read CSV files; convert the data to Parquet or LIBSVM.")
    data = open_chunks(arguments.data, target=arguments.target, n_features=n_features, zero_based=arguments.zero_based)
    return Rows(data.X, None if data.y is None else _whole_labels(data.y), data.X.feature_names)


def _read_rows_for(model: Any, arguments: argparse.Namespace) -> Rows:
    """Rows with the columns that the model was trained on."""
    if arguments.stream:
        return _open_rows(arguments, model.n_features_in_ if is_text(arguments.data) else None)
    try:
        rows = _read_rows(arguments, None)
    except DataFileError as error:
        if "the number of columns is unknown" not in error.sentence:
            raise
        rows = _read_rows(arguments, model.n_features_in_)
    expected, found = model.n_features_in_, rows.X.shape[1]
    if hasattr(rows.X, "indptr") and found < expected:
        rows.X.resize(rows.X.shape[0], expected)  # the last columns are zero in all rows of this file
    elif found == expected - 1 and arguments.target is None:
        rows = _read_unlabelled(arguments.data, rows)
    rows = _in_the_order_of(model, rows, arguments.data)
    if rows.X.shape[1] != expected:
        raise CommandError(
            f"{arguments.data}: There are {found} features, but the model was trained on {expected}; pass data with "
            f"the same columns."
        )
    return rows._replace(X=_dense(rows.X)) if getattr(model, "kernel", "") == "precomputed" else rows


def _read_unlabelled(path: str, labelled: Rows) -> Rows:
    """The rows of a CSV file without a target column, if the name of none of its columns says that it is the target."""
    table = read_csv(path, target=0)
    header = None if table.target_name is None else [table.target_name, *(table.feature_names or [])]
    if table.y.dtype.kind != "f" or (header and any(name.lower() in TARGET_NAMES for name in header)):
        return labelled
    return Rows(np.column_stack([table.y, table.X]), None, header)


def _in_the_order_of(model: Any, rows: Rows, path: str) -> Rows:
    """Columns sorted as in the training data, if both have names."""
    known = getattr(model, "feature_names_in_", None)
    if known is None or rows.names is None:
        return rows
    missing = [name for name in known if name not in rows.names]
    if missing:
        raise CommandError(f"{path}: The column {missing[0]!r} of the training data is missing; add it.")
    if len(rows.names) > len(known):
        extra = next(name for name in rows.names if name not in set(known))
        raise CommandError(f"{path}: The column {extra!r} was not in the training data; remove it.")
    return rows._replace(X=rows.X[:, [rows.names.index(name) for name in known]], names=list(known))


def _whole_labels(y: Any) -> Any:
    """Labels such as 1.0 as whole numbers, which is how people write them."""
    whole = y.dtype.kind == "f" and bool((np.abs(y) < 2.0**53).all() and (y == np.trunc(y)).all())
    return y.astype(np.int64) if whole else y


def _has_known_labels(model: Any, y: Any) -> bool:
    both_text = (model.classes_.dtype.kind in "UO") == (y.dtype.kind in "UO")
    return both_text and bool(np.isin(y, model.classes_.astype(y.dtype)).any())


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def _default_model_name(data: str) -> str:
    """The name of the data file without suffixes, with ours."""
    path = Path(data)
    return path.name.removesuffix("".join(path.suffixes)) + ".mm"


def _check_output(target: Path, *inputs: str) -> None:
    """Find out before any work whether a file can be written, and that it is none of the inputs."""
    if target.is_dir() or (target.exists() and not os.access(target, os.W_OK)):
        raise CommandError(f"{target}: This is a directory or a protected file; give the path of a new file.")
    if target.exists() and any(Path(name).exists() and target.samefile(name) for name in inputs):
        raise CommandError(f"{target}: This file is also an input, which would be lost; give another path.")
    if target.exists() and not target.is_file():  # a device or a pipe
        return
    try:
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise CommandError(f"{target}: No file can be written there ({error.strerror}); give another path.") from error


def _refuse_to_overwrite_data(target: Path) -> None:
    """Refuse to replace a file that is no model: the arguments were probably mixed up."""
    is_empty = target.is_file() and target.stat().st_size == 0
    if target.exists() and not is_empty and not (target.is_file() and zipfile.is_zipfile(target)):
        raise CommandError(f"{target}: The file exists and is not a model; remove it, or give another path for MODEL.")


# --- Reports ---------------------------------------------------------------------------------------------------------


def _training_report(model: Any) -> dict[str, Any]:
    """What a fit achieved, as plain values."""
    statuses = {solution.status for solution in model.solutions_}
    status = Status.INTERRUPTED if Status.INTERRUPTED in statuses else model.status_
    return {
        "class": type(model).__name__,
        "parameters": model.get_params(),
        "n_features": model.n_features_in_,
        "classes": model.classes_.tolist(),
        "status": status.name,
        "message": str(status),
        "converged": statuses == {Status.CONVERGED},
        "tol": model.tol,
        **_numbers(model.solution_.certificate),
        "iterations": sum(solution.iterations for solution in model.solutions_),
        "seconds": sum(solution.seconds for solution in model.solutions_),
        **_support_of(model),
        **_traffic_of(model),
        "problems": [
            {
                "name": name,
                "status": solution.status.name,
                "solver": solution.solver,
                **_numbers(solution.certificate),
                "iterations": solution.iterations,
                "seconds": solution.seconds,
                **({} if alpha is None else {"support_vectors": int(np.count_nonzero(alpha))}),
            }
            for name, solution in zip(_problem_names(model), model.solutions_, strict=True)
            for alpha in [solution.point.alpha]
        ],
    }


def _support_of(model: Any) -> dict[str, int]:
    """How many samples have dual variables; those of a distributed fit stay with the clients."""
    return {"support_vectors": int(model.support_.size)} if hasattr(model, "support_") else {}


def _traffic_of(model: Any) -> dict[str, Any]:
    """What the busiest client of a distributed fit has sent."""
    if not hasattr(model, "traffic_"):
        return {}
    largest = {name: float(values.max()) for name, values in model.traffic_.items()}
    return {"clients": int(model.traffic_["rounds"].size), "traffic": largest}


def _problem_names(model: Any) -> list[str]:
    names = list(map(_label_text, model.classes_.tolist()))
    if len(names) == 2:
        return [f"{names[1]} against {names[0]}"]
    if model.multi_class == "ovr":
        return [f"{name} against the rest" for name in names]
    return [f"{one} against {other}" for one, other in combinations(names, 2)]


def _numbers(certificate: Any) -> dict[str, float]:
    return {
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.gap,
        "relative_gap": certificate.relative_gap,
    }


def _write_training_report(report: dict[str, Any]) -> None:
    """Sentences and a table for people."""
    kernel = report["parameters"].get("kernel")
    problems = report["problems"]
    _write(
        f"{report['class']}{f' ({kernel} kernel)' if kernel else ''}: {report['n_samples']} samples, "
        f"{report['n_features']} features, {len(report['classes'])} classes\n"
        f"{report['message']} ({report['tol']:g} was asked for).\n"
    )
    columns = ["problem", "primal", "dual", "relative gap", "iterations", "seconds"]
    if "support_vectors" in report:
        columns.append("support vectors")
    if len({problem["status"] for problem in problems}) > 1:  # otherwise the sentence above has said it
        columns.insert(1, "status")
    _write_worst(columns, problems)
    if len(problems) > 1:
        _write(
            f"In all {len(problems)} problems: worst relative gap {report['relative_gap']:.2e}, {report['iterations']} "
            f"iterations, {report['seconds']:.2f} s"
            + (f", {report['support_vectors']} support vectors\n" if "support_vectors" in report else "\n")
        )
    if "traffic" in report:
        sent = report["traffic"]
        _write(
            f"{report['clients']} clients: {sent['rounds']:.0f} rounds, at most {sent['bytes']:.0f} bytes sent by one, "
            f"{sent['seconds']:.2f} s of waiting and sending\n"
        )
    _write(f"Model written to {report['model']}\n")


def _write_verdict(report: dict[str, Any]) -> None:
    relation, verdict = ("within", "Certified") if report["certified"] else ("above", "Not certified")
    gap = report["relative_gap"]
    _write(f"Problem: minimise {report['problem']}\n")
    _write_worst(("problem", "primal", "dual", "gap", "relative gap"), report["problems"])
    _write(f"{verdict}: the worst relative gap is {gap:.2e}, {relation} the tolerance {report['tol']:g}.\n")


def _write_demo(shape: tuple[int, int], rows: list[dict[str, Any]], proven: bool) -> None:
    _write(
        f"maxmargin {maxmargin.__version__} on scikit-learn's breast cancer data\n"
        f"({shape[0]} samples, {shape[1]} standardised features)\n\n"
        "Every fit ends with a proof. The primal value is what a model achieves, the\n"
        "dual value is what no model can go below: the optimum lies between the two.\n\n"
    )
    _write(_draw(("model", "primal", "dual", "relative gap", "seconds", "support vectors"), rows))
    claim = "Both models of maxmargin are proven to be within" if proven else "A model of maxmargin did not come within"
    _write(
        f"\n{claim} {DEMO_TOL:g} of the optimum.\n"
        f"scikit-learn's SVC, at its default settings, reports no gap; maxmargin.certify\n"
        f"judges its models too: {rows[-1]['relative_gap']:.1e}, on the problem of the first row.\n\n"
        "Try next: maxmargin train DATA --tol 1e-6, where DATA is a LIBSVM or CSV file.\n"
    )


def _write_worst(columns: Sequence[str], problems: list[dict[str, Any]]) -> None:
    """A table of the problems with the largest gaps."""
    worst_first = sorted(problems, key=lambda problem: -problem["relative_gap"])
    _write(_draw(columns, worst_first[:MOST_ROWS]))
    if len(problems) > MOST_ROWS:
        _write(f"... and {len(problems) - MOST_ROWS} more\n")


FORMATS: dict[str, Callable[[Any], str]] = {
    "status": lambda value: value.lower().replace("_", " "),
    "primal": "{:.10g}".format,
    "dual": "{:.10g}".format,
    "gap": "{:.2e}".format,
    "relative gap": "{:.2e}".format,
    "seconds": "{:.3f}".format,
}


def _draw(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """A table, drawn by rich if it is installed."""
    keys = {"problem": "name"}
    cells = [
        [FORMATS.get(column, str)(row[keys.get(column, column.replace(" ", "_"))]) for column in columns]
        for row in rows
    ]
    try:
        return _draw_richly(columns, cells)
    except ImportError:
        return _draw_plainly(columns, cells)


def _draw_richly(columns: Sequence[str], cells: list[list[str]]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for k, column in enumerate(columns):
        # Numbers are never broken; a long name, in the first column, is.
        table.add_column(column.replace(" ", "\n"), justify="right" if k else "left", no_wrap=k > 0, vertical="bottom")
    for row in cells:
        table.add_row(*map(Text, row))  # as Text, so that brackets in labels are not taken for markup
    console = Console(file=sys.stdout)
    if not sys.stdout.isatty():  # a file or a pipe has room for everything
        console.width = 10_000
    console.width = max(console.width, console.measure(table).minimum)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def _draw_plainly(columns: Sequence[str], cells: list[list[str]]) -> str:
    words = [column.split(" ") for column in columns]
    height = max(map(len, words))
    heads = [list(line) for line in zip(*([""] * (height - len(word)) + word for word in words), strict=True)]
    widths = [max(map(len, column)) for column in zip(*heads, *cells, strict=True)]
    lines = []
    for first, *others in (*heads, ["-" * width for width in widths], *cells):
        numbers = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *numbers]) + "\n")
    return "".join(lines)


def _as_lines(values: Any) -> str:
    """One line per sample."""
    rows = values.tolist()
    return "".join(" ".join(map(_label_text, row if isinstance(row, list) else [row])) + "\n" for row in rows)


def _label_text(label: Any) -> str:
    return repr(label).removesuffix(".0") if isinstance(label, float) else str(label)


# --- Standard output and standard error ------------------------------------------------------------------------------


def _write(text: str) -> None:
    """Write to standard output; a reader that has gone away is no error. Of several ranks, the first one writes."""
    if launched_rank() > 0:
        return
    try:
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()


def _drop_output() -> None:
    """Send the rest of standard output, also what is left at exit, to nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_json(report: dict[str, Any]) -> None:
    _write(json.dumps(_plain(report), allow_nan=False, indent=2, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    """What JSON can hold; a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _complain(error: Exception) -> None:
    """Say what went wrong. If it did so for the first rank too, the launcher ends the others while they wait."""
    rank = launched_rank()
    if rank > 0:
        time.sleep(SILENCE)
    _say(f"maxmargin: error{f' of rank {rank}' if rank else ''}: {_sentence(error)}")


def _say(text: str) -> None:
    """Write a line to standard error."""
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Show warnings for users as lines, and those for programmers not at all."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if launched_rank() == 0:
            _say(f"maxmargin: warning: {_in_words_of_options(str(message))}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # they are checked here
        warnings.showwarning = show
        yield


def _sentence(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, MemoryError):
        return "There is not enough memory; use fewer rows, sparse data, or a smaller --cache-size."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return _in_words_of_options(str(error))


def _in_words_of_options(text: str) -> str:
    for words, option in _OPTION_WORDS:
        text = words.sub(option, text)
    return " ".join(text.split())
