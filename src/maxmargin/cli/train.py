"""``maxmargin train``."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import DistributedSVC, OneClassSVM, Record, Status
from maxmargin.cli import INTERRUPTED
from maxmargin.cli.data import Rows, check_output, dense, read_rows, refuse_to_overwrite_data, weights_of, whole_labels
from maxmargin.cli.kinds import Model, classes_of, kind_of
from maxmargin.cli.output import (
    NOT_CONVERGED,
    OPTIONS,
    SUCCESS,
    CommandError,
    is_terminal,
    option,
    say,
    write,
    write_json,
)
from maxmargin.cli.scoring import cross_validate
from maxmargin.cli.tables import Line, label_text, numbers, write_worst
from maxmargin.communicators import launch_on_mpi
from maxmargin.communicators.launcher import launched_rank, under_mpirun
from maxmargin.io import open_shards, save_model
from maxmargin.loop.progress import ProgressLine
from maxmargin.operators import ChunkedMatrix
from maxmargin.protocols import Array
from maxmargin.threads import available_threads
from maxmargin.wording import shown

ATTEMPTS = 4  # of a job of MPI, with --on-failure restart
MANY_CLASSES = 20  # more labels are quantities rather than classes, for all that is known
PATIENCE = 2.0  # seconds until people look for a sign of life


def train(arguments: argparse.Namespace) -> int:
    """Fit, write the model, report; the exit code."""
    if arguments.cv is not None:
        return _try_out(arguments)
    target = Path(arguments.model or _default_model_name(arguments.data))
    check_output(target, arguments.data)
    refuse_to_overwrite_data(target)
    unfitted = _unfitted(arguments)
    if getattr(arguments, "engine", "") == "mpi" and not under_mpirun():
        return _launch(arguments, target)
    if isinstance(unfitted, DistributedSVC):
        (model, n_samples), scaler = _fit_clients(unfitted, arguments), None
    else:
        model, scaler, n_samples = _fit_here(unfitted, arguments)
    if launched_rank() > 0:
        return SUCCESS  # the first rank writes and reports; the launcher would end it if another had failed
    model.set_params(verbose=type(model)().verbose, callback=None)
    save_model(model if scaler is None else make_pipeline(scaler, model), target)
    statuses = {solution.status for solution in model.solutions_}
    status = Status.INTERRUPTED if Status.INTERRUPTED in statuses else model.status_
    if arguments.json:
        write_json(
            {
                "command": "train",
                **_report(model, status, converged=statuses == {Status.CONVERGED}),
                "data": arguments.data,
                "model": str(target),
                "n_samples": n_samples,
                "scaled": scaler is not None,
            }
        )
    elif not arguments.quiet:
        _tell(model, status, n_samples)
        write(f"Model written to {target}\n")
    if status is Status.INTERRUPTED:
        say(f"maxmargin: interrupted; the best model so far is in {target}.")
        return INTERRUPTED
    return SUCCESS if statuses == {Status.CONVERGED} else NOT_CONVERGED


def _unfitted(arguments: argparse.Namespace) -> Model:
    """The estimator with the given parameters, each of which is checked alone so that the wrong one can be named."""
    kind = kind_of(arguments)
    known = kind().get_params()
    parameters = {name: value for name, value in vars(arguments).items() if name in OPTIONS and name in known}
    if parameters.get("intercept") == "none":
        parameters["intercept"] = None
    for name, value in parameters.items():
        try:
            kind(**{name: value})._validate_params()
        except ValueError as error:
            raise CommandError(f"{option(name, str(value))}: {error}") from error
    return kind(**parameters)


def _fit_here(model: Model, arguments: argparse.Namespace) -> tuple[Model, StandardScaler | None, int]:
    """The model, fitted by this process, the scaler of its columns, and the number of samples."""
    rows, scaler = _training_rows(model, arguments)
    weights = weights_of(arguments, rows.X.shape[0])
    if is_terminal() and not (arguments.quiet or arguments.json or model.verbose):
        model.set_params(callback=_Patient(type(model).__name__, model.tol))
    if isinstance(model, OneClassSVM):
        model.fit(rows.X, sample_weight=weights)
    elif rows.y is None:
        raise CommandError(f"{arguments.data}: There are no targets to learn; say with --target where they are.")
    else:
        model.fit(rows.X, rows.y, sample_weight=weights)
    if rows.names is not None:
        model.feature_names_in_ = np.array(rows.names, dtype=object)
        if scaler is not None:
            scaler.feature_names_in_ = model.feature_names_in_
    return model, scaler, rows.X.shape[0]


def _training_rows(model: Model, arguments: argparse.Namespace) -> tuple[Rows, StandardScaler | None]:
    """The samples, standardised if they should be, and by what. Sets: weights of classes for the labels that there are.

    Raises
    ------
    CommandError
        The targets are no classes, but the model tells classes; or no numbers, but the model predicts them.

    """
    rows = read_rows(arguments, arguments.n_features)
    if getattr(arguments, "kernel", "") == "precomputed":
        rows = dense(rows)
    if isinstance(weights := getattr(model, "class_weight", None), dict):
        model.set_params(class_weight=_weights_of_classes(weights, rows.y, arguments.data))
    if rows.y is not None and not isinstance(model, OneClassSVM):
        _look_at_targets(rows.y, "regression" in vars(arguments), arguments.data)
    if not arguments.scale:
        return rows, None
    scaler = StandardScaler(with_mean=not isinstance(rows.X, sparse.csr_array)).fit(rows.X)
    return rows._replace(X=scaler.transform(rows.X)), scaler


def _look_at_targets(y: Array, are_quantities: bool, data: str) -> None:
    """Refuse quantities where classes are wanted, and texts where quantities are; warn of very many classes."""
    if are_quantities:
        if y.dtype.kind not in "fiu":
            raise CommandError(
                f"{data}: Targets such as {shown(str(y[0]))} are no numbers; leave --regression away to tell classes."
            )
        return
    if y.dtype.kind == "f":  # whole numbers have become integers
        odd = y[y != np.trunc(y)][0]
        raise CommandError(
            f"{data}: The target {odd:g} is no class, since it is no whole number; add --regression to predict "
            f"quantities, or write the classes as whole numbers or names."
        )
    count = np.unique(y).size
    if count > MANY_CLASSES and y.dtype.kind in "iu":
        pairs = count * (count - 1) // 2
        say(
            f"maxmargin: warning: {data}: There are {count} different labels, which one against one are {pairs} "
            f"machines; add --regression if they are quantities."
        )


def _weights_of_classes(weights: dict[str, float], y: Array | None, data: str) -> dict[object, float]:
    """Weights by the labels that the data have."""
    labels = {label_text(label): label for label in np.unique(y).tolist()} if y is not None else {}
    unknown = [name for name in weights if name not in labels]
    if unknown:
        known = ", ".join(list(labels)[:20])
        raise CommandError(
            f"{data}: No label is {unknown[0]}, for which --class-weight has a weight; there are {known}."
        )
    return {labels[name]: weight for name, weight in weights.items()}


class _Patient:
    """Shows the gap on a terminal, once a fit has taken so long that people look for it."""

    def __init__(self, name: str, tol: float) -> None:
        self.line = ProgressLine(1, name, tol)

    def __call__(self, record: Record) -> None:
        if record.seconds >= PATIENCE:
            self.line.show(record)


def _try_out(arguments: argparse.Namespace) -> int:
    """Mean and spread of the score over folds, without writing a model."""
    model = _unfitted(arguments)
    rows, _ = _training_rows(model, argparse.Namespace(**vars(arguments) | {"scale": False}))
    if rows.y is None or isinstance(model, OneClassSVM) or isinstance(rows.X, ChunkedMatrix):
        raise CommandError("--cv needs targets to compare predictions with; --one-class has none.")
    weights = weights_of(arguments, rows.X.shape[0])
    scores = cross_validate(model, rows.X, rows.y, weights, arguments.cv, arguments.scale)
    if arguments.json:
        write_json({"command": "train", "data": arguments.data, "folds": arguments.cv, **scores.report()})
    else:
        write(scores.text())
    return SUCCESS if scores.converged else NOT_CONVERGED


def _fit_clients(model: DistributedSVC, arguments: argparse.Namespace) -> tuple[Model, int]:
    """A model that several clients fit, each to its part of the data, and the number of all samples."""
    data = open_shards(
        arguments.data, target=arguments.target, n_features=arguments.n_features, zero_based=arguments.zero_based
    )
    if isinstance(weights := model.class_weight, dict):  # labels of LIBSVM files, which clients read, are numbers
        model.set_params(class_weight={_number_or_text(label): weight for label, weight in weights.items()})
    with _cluster(getattr(arguments, "scheduler", None)):
        model.fit(data)
    model.classes_ = whole_labels(model.classes_)
    return model, model.shape_fit_[0]


def _number_or_text(label: int | str) -> float | str:
    try:
        return float(label)
    except ValueError:
        return str(label)


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


def _launch(arguments: argparse.Namespace, target: Path) -> int:
    """Run the same command line under mpirun.

    Raises
    ------
    CommandError
        The ranks did not come to write a model, since mpirun could not start them: its exit code is that of a fit
        without the tolerance.

    """
    command = [sys.executable, "-m", "maxmargin", *arguments.words]
    restarts = getattr(arguments, "on_failure", "raise") == "restart"
    ranks = getattr(arguments, "n_clients", available_threads())
    before = _stamp(target)
    code = launch_on_mpi(command, ranks, attempts=ATTEMPTS if restarts else 1)
    if code == NOT_CONVERGED and _stamp(target) == before:
        raise CommandError(f"mpirun did not start {ranks} ranks; what it has written above says why.")
    return code


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced."""
    return (status.st_ino, status.st_mtime_ns) if path.exists() and (status := path.stat()) else None


def _default_model_name(data: str) -> str:
    """The name of the data file without suffixes, with ours."""
    path = Path(data)
    return path.name.removesuffix("".join(path.suffixes)) + ".mm"


def _report(model: Model, status: Status, converged: bool) -> dict[str, object]:
    """What a fit achieved, as plain values."""
    report = {
        "class": type(model).__name__,
        "parameters": model.get_params(),
        "n_features": model.n_features_in_,
        "classes": None if (classes := classes_of(model)) is None else classes.tolist(),
        "status": status.name,
        "message": str(status),
        "converged": converged,
        "tol": model.tol,
        **numbers(model.solution_.certificate),
        "iterations": sum(solution.iterations for solution in model.solutions_),
        "seconds": sum(solution.seconds for solution in model.solutions_),
        "problems": _problems(model),
    }
    if isinstance(model, DistributedSVC):  # whose dual variables stay with the clients
        return report | {"clients": int(model.traffic_["rounds"].size), "traffic": _traffic(model)}
    support = getattr(model, "support_", None)  # which linear regressions have not
    return report if support is None else report | {"support_vectors": int(support.size)}


def _problems(model: Model) -> list[Line]:
    names = list(map(label_text, getattr(model, "classes_", np.empty(0)).tolist()))
    if not names:
        problems = ["one class" if isinstance(model, OneClassSVM) else "regression"]
    elif len(names) == 2:
        problems = [f"{names[1]} against {names[0]}"]
    elif getattr(model, "multi_class", "") == "ovr":
        problems = [f"{name} against the rest" for name in names]
    else:
        problems = [f"{one} against {other}" for one, other in combinations(names, 2)]
    lines = []
    for name, solution in zip(problems, model.solutions_, strict=True):
        alpha = solution.point.alpha
        line = Line(solution.certificate, name=name, status=solution.status.name, solver=solution.solver)
        line |= {"iterations": solution.iterations, "seconds": solution.seconds}
        if alpha is not None:
            line["support_vectors"] = int(np.count_nonzero(alpha))
        lines.append(line)
    return lines


def _traffic(model: DistributedSVC) -> dict[str, float]:
    """What the busiest client of a distributed fit has sent."""
    return {name: float(values.max()) for name, values in model.traffic_.items()}


def _tell(model: Model, status: Status, n_samples: int) -> None:
    """Sentences and a table for people."""
    kernel, problems = getattr(model, "kernel", None), _problems(model)
    classes = f", {model.classes_.size} classes" if hasattr(model, "classes_") else ""
    write(
        f"{type(model).__name__}{f' ({kernel} kernel)' if kernel else ''}: {n_samples} samples, "
        f"{model.n_features_in_} features{classes}\n"
        f"{status} ({model.tol:g} was asked for).\n"
    )
    columns = ["problem", "primal", "dual", "relative gap", "iterations", "seconds"]
    if not isinstance(model, DistributedSVC):
        columns.append("support vectors")
    if len({problem["status"] for problem in problems}) > 1:  # otherwise the sentence above has said it
        columns.insert(1, "status")
    write_worst(columns, problems)
    if len(problems) > 1:
        write(
            f"In all {len(problems)} problems: worst relative gap {model.solution_.certificate.relative_gap:.2e}, "
            f"{sum(solution.iterations for solution in model.solutions_)} iterations, "
            f"{sum(solution.seconds for solution in model.solutions_):.2f} s"
            + ("\n" if isinstance(model, DistributedSVC) else f", {model.support_.size} support vectors\n")
        )
    if isinstance(model, DistributedSVC):
        sent = _traffic(model)
        write(
            f"{model.traffic_['rounds'].size} clients: {sent['rounds']:.0f} rounds, at most {sent['bytes']:.0f} bytes "
            f"sent by one, {sent['seconds']:.2f} s of waiting and sending\n"
        )
