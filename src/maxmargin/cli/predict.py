"""``maxmargin predict`` and ``maxmargin certify``: what a model says about data, and what it is worth on its own."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

import maxmargin
from maxmargin import OneClassSVM
from maxmargin.cli.data import Rows, check_output, has_known_labels, model_and_rows, weights_of
from maxmargin.cli.kinds import Model, classes_of
from maxmargin.cli.output import NOT_CONVERGED, SUCCESS, CommandError, say, write, write_json
from maxmargin.cli.tables import Line, label_text, numbers, write_worst
from maxmargin.models.writing import replaced_when_whole
from maxmargin.protocols import Array, Float


def predict(arguments: argparse.Namespace) -> int:
    """Write labels or decision values, and say how many labels are right."""
    if arguments.out is not None:
        check_output(Path(arguments.out), arguments.data, arguments.model)
    model, rows = model_and_rows(arguments)
    values, labels = _values_and_labels(model, rows, arguments)
    kind = "scores" if arguments.scores else "probabilities" if arguments.proba else "labels"
    report: dict[str, object] = {"data": arguments.data, "model": arguments.model, "n_samples": labels.size}
    if arguments.proba:
        report["classes"] = model.classes_.tolist()
    if arguments.out is not None:
        out = Path(arguments.out)
        is_device = out.exists() and not out.is_file()
        with out.open("wb") if is_device else replaced_when_whole(out) as file:
            file.write(_as_lines(values).encode())
        report["out"] = arguments.out
    elif arguments.json:
        report[kind] = values.tolist()
    else:
        write(_as_lines(values), needed=True)
    verdict = ""
    if classes_of(model) is None:
        if has_known_labels(model, rows.y):
            errors = _errors(labels, np.asarray(rows.y, dtype=np.float64))
            report |= errors
            verdict = f"Mean squared error: {errors['mean_squared_error']:.6g}, R2: {errors['r2']:.4f}"
    elif has_known_labels(model, rows.y):
        right = int((labels == rows.y).sum())
        report |= {"n_right": right, "accuracy": right / labels.size}
        verdict = f"Accuracy: {100 * right / labels.size:.2f} % ({right} / {labels.size})"
    elif rows.y is not None:
        verdict = "Accuracy: unknown, because no label in the data is a class of the model."
    if arguments.json:
        write_json({"command": "predict", **report}, needed=arguments.out is None)
    elif verdict:
        say(verdict)
    return SUCCESS


def _values_and_labels(model: Model, rows: Rows, arguments: argparse.Namespace) -> tuple[Array, Array]:
    """What is to be written, and what the model predicts."""
    if arguments.proba:
        if not hasattr(model, "predict_proba"):
            raise CommandError(
                f"{arguments.model}: The model has no probabilities; train one with --probability, or leave --proba "
                f"away."
            )
        values = model.predict_proba(rows.X)
        return values, np.asarray(model.predict(rows.X))
    if not arguments.scores:
        labels = model.predict(rows.X)
        return labels, labels
    if not hasattr(model, "decision_function"):
        raise CommandError(f"{arguments.model}: What the model predicts are its scores already; leave --scores away.")
    scores = model.decision_function(rows.X)
    return scores, model.predict(rows.X) if isinstance(model, OneClassSVM) else _labels_of(model, rows, scores)


def _errors(predicted: Array, y: Float) -> dict[str, float]:
    """How far predictions are from quantities."""
    squared, spread = float(np.mean((predicted - y) ** 2)), float(np.mean((y - y.mean()) ** 2))
    return {"mean_squared_error": squared, "r2": 1.0 - squared / spread if spread > 0.0 else math.nan}


def _labels_of(model: Model, rows: Rows, scores: Float) -> Array:
    """What ``model.predict`` says about rows with these scores, without computing them again.

    Scores of classes that were found pair by pair are votes and less than half a vote from the sum of the scores, which
    ``predict`` leaves out of account unless ``break_ties`` is set.
    """
    if scores.ndim == 1:
        return np.asarray(model.classes_[(scores > 0.0).astype(int)])
    if getattr(model, "decision_function_shape", "ovr") == "ovo":  # of pairs, which only the model can count
        return np.asarray(model.predict(rows.X))
    votes = getattr(model, "multi_class", "ovr") == "ovo" and not getattr(model, "break_ties", True)
    return np.asarray(model.classes_[(np.rint(scores) if votes else scores).argmax(axis=1)])


def _as_lines(values: Array) -> str:
    """One line per sample."""
    return "".join(" ".join(map(label_text, row)) + "\n" for row in values.reshape(values.shape[0], -1).tolist())


def certify(arguments: argparse.Namespace) -> int:
    """Judge a model on its training data."""
    if arguments.tol is not None and not 0.0 < arguments.tol < math.inf:
        raise CommandError(f"--tol {arguments.tol:g} is not a positive number; pass one such as 1e-6.")
    model, rows = model_and_rows(arguments)
    classes = classes_of(model)
    if isinstance(model, OneClassSVM):
        rows = rows._replace(y=None)
    elif classes is not None and not has_known_labels(model, rows.y):
        first = label_text(model.classes_.tolist()[0])
        raise CommandError(
            f"{arguments.data}: No label is one of the {model.classes_.size} classes of the model, such as {first}; a "
            f"certificate needs the data that the model was trained on."
        )
    elif rows.y is None:
        raise CommandError(f"{arguments.data}: There are no targets; a certificate needs those of the training data.")
    verdict = maxmargin.certify(model, rows.X, rows.y, weights_of(arguments, rows.X.shape[0]))
    tol = float(model.tol) if arguments.tol is None else arguments.tol
    certified = bool(verdict.relative_gap <= tol)
    problems = [Line(found, name=name) for name, found in zip(verdict.names, verdict.certificates, strict=True)]
    if arguments.json:
        write_json(
            {
                "command": "certify",
                "data": arguments.data,
                "model": arguments.model,
                "problem": verdict.problem,
                "certified": certified,
                "tol": tol,
                **numbers(verdict.worst),
                "problems": problems,
            }
        )
    else:
        relation, claim = ("within", "Certified") if certified else ("above", "Not certified")
        write(f"Problem: minimise {verdict.problem}\n")
        write_worst(("problem", "primal", "dual", "gap", "relative gap"), problems)
        write(f"{claim}: the worst relative gap is {verdict.relative_gap:.2e}, {relation} the tolerance {tol:g}.\n")
    return SUCCESS if certified else NOT_CONVERGED
