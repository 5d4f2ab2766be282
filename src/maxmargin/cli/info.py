"""``maxmargin info``: what a model file holds."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from maxmargin.cli.kinds import classes_of
from maxmargin.cli.output import SUCCESS, write, write_json
from maxmargin.cli.tables import label_text, numbers
from maxmargin.io import load_model
from maxmargin.models.scaling import parts_of

FEW = 10  # classes that are named


def info(arguments: argparse.Namespace) -> int:
    """Tell class, parameters, data and certificate of a model."""
    scaler, model = parts_of(load_model(arguments.model))
    defaults = type(model)().get_params()
    changed = {name: value for name, value in model.get_params().items() if value != defaults[name]}
    classes = classes_of(model)
    report: dict[str, object] = {
        "class": type(model).__name__,
        "parameters": changed,
        "n_features": model.n_features_in_,
        "feature_names": getattr(model, "feature_names_in_", np.empty(0)).tolist() or None,
        "classes": None if classes is None else classes.tolist(),
        "scaled": scaler is not None,
        "status": model.status_.name,
        "message": model.solution_.message,
        **numbers(model.solution_.certificate),
        "error": model.solution_.certificate.error,
        "tol": model.solution_.tol,
        "problems": len(model.solutions_),
        "support_vectors": int(model.support_.size) if hasattr(model, "support_") else None,
        "bytes": Path(arguments.model).stat().st_size,
    }
    if arguments.json:
        write_json({"command": "info", "model": arguments.model, **report})
        return SUCCESS
    write(f"{report['class']}({', '.join(f'{name}={value!r}' for name, value in changed.items())})\n")
    write(f"{model.n_features_in_} features{', standardised first' if scaler is not None else ''}\n")
    if classes is not None:
        names = ", ".join(map(label_text, classes.tolist()[:FEW]))
        write(f"{classes.size} classes: {names}{', ...' if classes.size > FEW else ''}\n")
    if report["support_vectors"] is not None:
        write(f"{report['support_vectors']} support vectors\n")
    write(f"{model.solution_}\n")
    return SUCCESS
