"""Where most people live: small data and default arguments. Prints a table of our fits against scikit-learn's.

``python benchmarks/everyday.py [WORD ...]`` prints only the rows with one of the words. Both are timed in turns, and
wins and losses are printed alike. The medians are those of this machine; the ratios carry over.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import sklearn.linear_model
import sklearn.svm
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.preprocessing import StandardScaler

import maxmargin

Data = tuple[np.ndarray, np.ndarray]
CLASSIFIERS = (
    ("SVC", {}),
    ("SVC", {"kernel": "linear"}),
    ("SVC", {"C": 100.0}),
    ("NuSVC", {"nu": 0.1}),
    ("LinearSVC", {}),
    ("LinearSVC", {"loss": "hinge"}),
    ("LogisticRegression", {}),
)
REGRESSORS = (("SVR", {}), ("NuSVR", {}), ("LinearSVR", {}), ("OneClassSVM", {}))


def sets() -> Iterator[tuple[str, Data, tuple]]:
    """Names, samples with targets, and the estimators for them."""
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        yield load.__name__.removeprefix("load_"), (StandardScaler().fit_transform(X), y), CLASSIFIERS
    for n in (200, 1000, 2000):
        yield f"made {n}", make_classification(n, 20, random_state=0), CLASSIFIERS
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", (X, y / y.std()), REGRESSORS


def in_turns(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median milliseconds of both, after a call of each."""
    times: tuple[list[float], list[float]] = ([], [])
    ours(), theirs()
    for _ in range(repeats):
        for run, own in zip((ours, theirs), times, strict=True):
            began = time.perf_counter()
            run()
            own.append(1e3 * (time.perf_counter() - began))
    return float(np.median(times[0])), float(np.median(times[1]))


def rows(words: list[str], repeats: int) -> Iterator[tuple[str, float, float]]:
    """The name, our milliseconds and scikit-learn's for a fit and one predicted row of each."""
    for name, (X, y), estimators in sets():
        for kind, options in estimators:
            ours = getattr(maxmargin, kind)(**options)
            peer = getattr(sklearn.svm, kind, None) or getattr(sklearn.linear_model, kind)
            theirs = peer(**options)
            of_sample = f"{name} {kind} {' '.join(f'{key}={value}' for key, value in options.items())}".strip()
            for what, method, arguments in (("fit", "fit", (X, y)), ("predict a row", "predict", (X[:1],))):
                title = f"{what} {of_sample}"
                if words and not any(word in title for word in words):
                    continue
                if what != "fit" and not hasattr(ours, "n_features_in_"):
                    ours.fit(X, y), theirs.fit(X, y)
                calls = [partial(getattr(model, method), *arguments) for model in (ours, theirs)]
                yield title, *in_turns(*calls, repeats)


def main() -> int:
    """Print the table, and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only rows with one of these words")
    parser.add_argument("--repeats", type=int, default=9, help="of each call (default: 9)")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=sklearn.exceptions.ConvergenceWarning)
    ratios = []
    print("| | maxmargin, ms | scikit-learn, ms | ratio |\n|---|---|---|---|")
    for title, ours, theirs in rows(given.words, given.repeats):
        ratios.append(theirs / ours)
        print(f"| {title} | {ours:.2f} | {theirs:.2f} | {ratios[-1]:.2f} |", flush=True)
    if ratios:
        wins = sum(ratio >= 1.0 for ratio in ratios)
        print(f"\n{wins} of {len(ratios)} are faster; the geometric mean of the ratios is "
              f"{np.exp(np.mean(np.log(ratios))):.2f}.")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
