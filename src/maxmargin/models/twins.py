"""Our models as scikit-learn's of the same name, for packages that ask for the class: skl2onnx and eli5."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin import estimators

Kind = type[BaseEstimator]
PACKAGES = ("sklearn.linear_model", "sklearn.svm")
ONE_SCORE_FOR_EACH = ("ovr", "multinomial", "crammer_singer")  # class, of linear machines


def register_onnx_converters() -> list[str]:
    """Tell skl2onnx (``maxmargin[onnx]``) how to convert our estimators: as scikit-learn's of the same name.

    They have the same fitted attributes. Call it once, before ``skl2onnx.to_onnx``. Probabilities of a fit with
    ``probability=True`` have no place in ONNX's operators, which give scores instead.

    Returns
    -------
    list of str
        The names of the classes that can be converted from now on.

    """
    parsing = _imported("skl2onnx._parse", "skl2onnx")
    names = importlib.import_module("skl2onnx._supported_operators").sklearn_operator_name_map
    known = []
    for name, ours, theirs in _of_the_same_name():
        if theirs in names:

            def parse(
                scope: object, model: BaseEstimator, *rest: object, kind: Kind = theirs, **named: object
            ) -> object:
                return parsing._parse_sklearn(scope, _of_scikit_learn(model, kind), *rest, **named)

            parsing.sklearn_parsers_map[ours] = parse
            known.append(name)
    return known


def register_eli5() -> list[str]:
    """Tell eli5 (``pip install eli5``) how to explain our estimators: as scikit-learn's of the same name.

    Returns
    -------
    list of str
        The names of the classes whose weights and predictions can be explained from now on.

    """
    eli5 = _imported("eli5", "eli5")
    known = []
    for name, ours, theirs in _of_the_same_name():
        for explain in (eli5.explain_weights, eli5.explain_prediction):

            def explained(
                model: BaseEstimator, *rest: object, kind: Kind = theirs, ask: object = explain, **named: object
            ) -> object:
                assert callable(ask)
                return ask(_of_scikit_learn(model, kind), *rest, **named)

            explain.register(ours)(explained)
        known.append(name)
    return known


def _imported(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"This needs the package {package}: pip install {package}.") from error


def _of_the_same_name() -> Iterator[tuple[str, Kind, Kind]]:
    for package in map(importlib.import_module, PACKAGES):
        for name in estimators.__all__:
            ours, theirs = getattr(estimators, name), getattr(package, name, None)
            if isinstance(ours, type) and isinstance(theirs, type):
                yield name, ours, theirs


def _of_scikit_learn(model: BaseEstimator, kind: type[BaseEstimator]) -> BaseEstimator:
    """A model of scikit-learn's class of the same name with our fitted attributes."""
    strategy, several = getattr(model, "multi_class", None), len(getattr(model, "classes_", ())) > 2
    pairs = hasattr(model, "support_vectors_")
    # scikit-learn's SVC has pairs, its LinearSVC one class against the rest, its LogisticRegression a softmax.
    softmax = kind.__name__ == "LogisticRegression"
    right = ("ovo",) if pairs else ("multinomial",) if softmax else ONE_SCORE_FOR_EACH
    if several and strategy is not None and strategy not in right:
        raise ValueError(
            f"skl2onnx knows {kind.__name__} of several classes with multi_class={right[0]!r} only; this one has "
            f"{strategy!r}. Wrap a model of two classes in scikit-learn's OneVsRestClassifier or OneVsOneClassifier."
        )
    twin = kind()
    given = model.get_params(deep=False)
    attributes = {name: value for name, value in vars(model).items() if name not in given}
    kernels = {name: given[name] for name in ("kernel", "degree", "coef0", "gamma", "nu") if name in given}
    vars(twin).update(attributes, **kernels, **({"loss": given["loss"]} if kind.__name__ == "SGDClassifier" else {}))
    if pairs:
        vars(twin).update(_probA=np.empty(0), _probB=np.empty(0), _sparse=False, probability=False)
    return twin
