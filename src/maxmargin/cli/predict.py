"""``maxmargin predict`` and ``maxmargin certify``: what a model says about data, and what it is worth on its own."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

import maxmargin
from maxmargin.cli.data import Model, Rows, check_output, has_known_labels, model_and_rows
from maxmargin.cli.output import NOT_CONVERGED, SUCCESS, CommandError, say, write, write_json
from maxmargin.cli.tables import Line, label_text, numbers, write_worst
from maxmargin.models.writing import replaced_when_whole
from maxmargin.protocols import Array, Float


def predict(arguments: argparse.Namespace) -> int:
    """Write labels or decision values, and say how many labels are right."""
    if arguments.out is not None:
        check_output(Path(arguments.out), arguments.data, arguments.model)
    model, rows = model_and_rows(arguments)
    if arguments.scores:
        values = model.decision_function(rows.X)
        labels = _labels_of(model, rows, values)
    else:
        values = labels = model.predict(rows.X)
    report: dict[str, object] = {"data": arguments.data, "model": arguments.model, "n_samples": labels.size}
    if arguments.out is not None:
        with replaced_when_whole(arguments.out) as file:
            file.write(_as_lines(values).encode())
        report["out"] = arguments.out
    elif arguments.json:
        report["scores" if arguments.scores else "labels"] = values.tolist()
    else:
        write(_as_lines(values), needed=True)
    verdict = ""
    if has_known_labels(model, rows.y):
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
    if not has_known_labels(model, rows.y):
        first = label_text(model.classes_.tolist()[0])
        raise CommandError(
            f"{arguments.data}: No label is one of the {model.classes_.size} classes of the model, such as {first}; a "
            f"certificate needs the data that the model was trained on."
        )
    verdict = maxmargin.certify(model, rows.X, rows.y)
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
