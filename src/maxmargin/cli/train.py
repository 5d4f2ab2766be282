"""``maxmargin train``."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np

from maxmargin import SVC, DistributedSVC, LinearSVC, Status
from maxmargin.cli.data import Model, check_output, dense, read_rows, refuse_to_overwrite_data, whole_labels
from maxmargin.cli.output import (
    INTERRUPTED,
    NOT_CONVERGED,
    OPTIONS,
    SUCCESS,
    CommandError,
    option,
    say,
    write,
    write_json,
)
from maxmargin.cli.tables import Line, label_text, numbers, write_worst
from maxmargin.communicators import launch_on_mpi
from maxmargin.communicators.launcher import launched_rank, under_mpirun
from maxmargin.io import open_shards, save_model
from maxmargin.threads import available_threads

OF_CLIENTS = (
    "engine",
    "topology",
    "n_clients",
    "scheduler",
    "round_timeout",
    "checkpoint",
    "checkpoint_every",
    "on_failure",
)
ATTEMPTS = 4  # of a job of MPI, with --on-failure restart


def train(arguments: argparse.Namespace) -> int:
    """Fit, write the model, report; the exit code."""
    target = Path(arguments.model or _default_model_name(arguments.data))
    check_output(target, arguments.data)
    refuse_to_overwrite_data(target)
    unfitted = _unfitted(arguments)
    if getattr(arguments, "engine", "") == "mpi" and not under_mpirun():
        return _launch(arguments)
    if isinstance(unfitted, DistributedSVC):
        model, n_samples = _fit_clients(unfitted, arguments)
    else:
        model, n_samples = _fit_here(unfitted, arguments)
    if launched_rank() > 0:
        return SUCCESS  # the first rank writes and reports; the launcher would end it if another had failed
    save_model(model.set_params(verbose=type(model)().verbose), target)
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
            }
        )
    elif not arguments.quiet:
        _tell(model, status, n_samples)
        write(f"Model written to {target}\n")
    if status is Status.INTERRUPTED:
        say(f"maxmargin: interrupted; the best model so far is in {target}.")
        return INTERRUPTED
    return SUCCESS if statuses == {Status.CONVERGED} else NOT_CONVERGED


def has_clients(arguments: argparse.Namespace) -> bool:
    """Whether several clients are to train together."""
    return under_mpirun() or any(name in OF_CLIENTS for name in vars(arguments))


def estimator_of(arguments: argparse.Namespace) -> type[SVC] | type[LinearSVC] | type[DistributedSVC]:
    """What is to be trained."""
    if has_clients(arguments):
        return DistributedSVC
    return LinearSVC if hasattr(arguments, "linear") else SVC


def _unfitted(arguments: argparse.Namespace) -> Model:
    """The estimator with the given parameters, each of which is checked alone so that the wrong one can be named."""
    kind = estimator_of(arguments)
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


def _fit_here(model: Model, arguments: argparse.Namespace) -> tuple[Model, int]:
    """The model, fitted by this process, and the number of samples."""
    rows = read_rows(arguments, arguments.n_features)
    if getattr(arguments, "kernel", "") == "precomputed":
        rows = dense(rows)
    model.fit(rows.X, rows.y)
    if rows.names is not None:
        model.feature_names_in_ = np.array(rows.names, dtype=object)
    return model, rows.X.shape[0]


def _fit_clients(model: DistributedSVC, arguments: argparse.Namespace) -> tuple[Model, int]:
    """A model that several clients fit, each to its part of the data, and the number of all samples."""
    data = open_shards(
        arguments.data, target=arguments.target, n_features=arguments.n_features, zero_based=arguments.zero_based
    )
    with _cluster(getattr(arguments, "scheduler", None)):
        model.fit(data)
    model.classes_ = whole_labels(model.classes_)
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
    restarts = getattr(arguments, "on_failure", "raise") == "restart"
    ranks = getattr(arguments, "n_clients", available_threads())
    return launch_on_mpi(command, ranks, attempts=ATTEMPTS if restarts else 1)


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
        "classes": model.classes_.tolist(),
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
    return report | {"support_vectors": int(model.support_.size)}


def _problems(model: Model) -> list[Line]:
    names = list(map(label_text, model.classes_.tolist()))
    if len(names) == 2:
        problems = [f"{names[1]} against {names[0]}"]
    elif model.multi_class == "ovr":
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
    write(
        f"{type(model).__name__}{f' ({kernel} kernel)' if kernel else ''}: {n_samples} samples, "
        f"{model.n_features_in_} features, {model.classes_.size} classes\n"
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
