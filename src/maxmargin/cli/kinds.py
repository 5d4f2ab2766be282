"""Which estimator the options of ``maxmargin train`` mean, and which options have no effect on it."""

from __future__ import annotations

import argparse
import inspect
from typing import TypeAlias

import numpy as np

from maxmargin import SVC, SVR, DistributedSVC, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.cli.output import OPTIONS, CommandError, option
from maxmargin.communicators.launcher import under_mpirun
from maxmargin.protocols import Array

Model: TypeAlias = SVC | LinearSVC | DistributedSVC | NuSVC | SVR | LinearSVR | NuSVR | OneClassSVM
KINDS: tuple[type[Model], ...] = (SVC, LinearSVC, DistributedSVC, SVR, LinearSVR, NuSVC, NuSVR, OneClassSVM)
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
OF_ONE_PROCESS = ("weights", "scale", "cv")  # options of this program alone, which clients do not know

# Linear scores, quantities instead of classes, nu instead of C, one class: what these mean together.
COMBINATIONS: dict[frozenset[str], type[Model]] = {
    frozenset(): SVC,
    frozenset({"linear"}): LinearSVC,
    frozenset({"regression"}): SVR,
    frozenset({"linear", "regression"}): LinearSVR,
    frozenset({"nu"}): NuSVC,
    frozenset({"nu", "regression"}): NuSVR,
    frozenset({"one_class"}): OneClassSVM,
    frozenset({"one_class", "nu"}): OneClassSVM,
}
FLAGS = ("linear", "regression", "one_class", "nu")


def has_clients(arguments: argparse.Namespace) -> bool:
    """Whether several clients are to train together."""
    return under_mpirun() or any(name in OF_CLIENTS for name in vars(arguments))


def kind_of(arguments: argparse.Namespace) -> type[Model]:
    """What is to be trained.

    Raises
    ------
    CommandError
        Options contradict each other.

    """
    if has_clients(arguments):
        return DistributedSVC
    given = frozenset(name for name in FLAGS if name in vars(arguments))
    if given in COMBINATIONS:
        return COMBINATIONS[given]
    first, second = ("one_class", "regression") if {"one_class", "regression"} <= given else (_other(given), "linear")
    remedy = "; for a linear kernel, pass --kernel linear." if second == "linear" else ": leave one of them away."
    raise CommandError(f"{flag(first)} contradicts {flag(second)}{remedy}")


def _other(given: frozenset[str]) -> str:
    return next(name for name in ("one_class", "nu") if name in given)


def flag(name: str) -> str:
    """What people type."""
    return f"--{name.replace('_', '-')}"


def refuse_idle_options(arguments: argparse.Namespace, kind: type[Model]) -> None:
    """Refuse options that the estimator does not have."""
    given = vars(arguments)
    known = inspect.signature(kind).parameters
    what = " ".join(flag(name) for name in FLAGS if name in given)
    for name in OPTIONS:
        if name not in given or name in known or not any(name in inspect.signature(k).parameters for k in KINDS):
            continue
        if what:
            raise CommandError(f"{option(name)} has no effect with {what}; leave one of the two away.")
        having = " or ".join(_words(k) for k in KINDS if name in inspect.signature(k).parameters)
        raise CommandError(f"{option(name)} has an effect only with {having}; add it, or leave {option(name)} away.")


def _words(kind: type[Model]) -> str:
    """The shortest options that mean an estimator."""
    flags = min((c for c, k in COMBINATIONS.items() if k is kind), key=len, default=frozenset({"engine"}))
    return " ".join(map(flag, sorted(flags)))


def classes_of(model: Model) -> Array | None:
    """What a model tells apart; ``None`` if it predicts quantities."""
    if isinstance(model, OneClassSVM):
        return np.array([-1, 1])
    classes: Array | None = getattr(model, "classes_", None)
    return classes
