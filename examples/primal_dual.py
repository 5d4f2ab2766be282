"""Primal or dual: explicit features against a kernel, measured. ``python examples/primal_dual.py`` prints the table."""

import argparse
import io
import time
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import make_classification
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from drawing import BLUE, FIGURES, GREEN, ORANGE, RED, label, plt, save
from maxmargin import SVC, LinearSVC

D, GAMMA, FEATURES = 10, 0.1, 150
COLOURS = {"linear": ORANGE, "random Fourier": GREEN, "Nystroem": BLUE, "Gaussian kernel": RED}


@dataclass
class Measured:
    """What a model weighs and costs."""

    parameters: int  # numbers that a prediction needs
    bytes: int
    training: float  # processor seconds
    inference: float  # microseconds a row
    accuracy: float
    gap: float


def models():
    """Linear machines on explicit features, and kernel machines; the hinge and a free intercept everywhere."""

    def linear():
        return LinearSVC(loss="hinge", intercept="free", tol=1e-3)

    return {
        "linear": linear(),
        "polynomial of degree 2": make_pipeline(PolynomialFeatures(2, include_bias=False), linear()),
        "random Fourier": make_pipeline(RBFSampler(gamma=GAMMA, n_components=FEATURES, random_state=0), linear()),
        "Nystroem": make_pipeline(Nystroem(gamma=GAMMA, n_components=FEATURES, random_state=0), linear()),
        "polynomial kernel": SVC(kernel="poly", degree=2, gamma=1.0, coef0=1.0, tol=1e-3),
        "Gaussian kernel": SVC(gamma=GAMMA, tol=1e-3),
    }


def parameters_of(model):
    """Numbers that a prediction needs: of the coefficients and the map, or of the support vectors."""
    last = model[-1] if hasattr(model, "steps") else model
    if isinstance(last, SVC):
        return last.support_vectors_.size + last.dual_coef_.size + 1
    count = last.coef_.size + 1
    if hasattr(model, "steps"):
        held = vars(model[0])
        arrays = ("random_weights_", "random_offset_", "components_", "normalization_")
        count += sum(held[name].size for name in arrays if name in held)
    return count


def measure(model, X, y, new, labels, repetitions=3):
    """Fit and predict, the least of several times; the size is that of the numbers as they would be stored."""
    training, inference = [], []
    for _ in range(repetitions):
        began = time.process_time()
        model.fit(X, y)
        training.append(time.process_time() - began)
        began = time.process_time()
        predicted = model.predict(new)
        inference.append(time.process_time() - began)
    last = model[-1] if hasattr(model, "steps") else model
    numbers = parameters_of(model)
    stored = io.BytesIO()
    np.save(stored, np.zeros(numbers))
    return Measured(
        numbers, stored.tell(), min(training), 1e6 * min(inference) / len(new), float((predicted == labels).mean()),
        float(last.duality_gap_),
    )  # fmt: skip


def study(sizes, repetitions=3):
    """Every model on more and more samples."""
    X, y = make_classification(
        max(sizes) + 4000, D, n_informative=8, n_redundant=0, n_clusters_per_class=4, class_sep=1.0, random_state=1
    )
    new, labels = X[-4000:], y[-4000:]
    found = {}
    for n in sizes:
        for name, model in models().items():
            model.fit(X[:200], y[:200])  # compiles
            found[name, n] = measure(model, X[:n], y[:n], new, labels, repetitions)
    return found


def report(found, sizes):
    """The table of docs/feature_maps.md."""
    lines = [
        "| model | n | parameters | KB | training, s | prediction, us a row | right | gap |",
        "|---|" + "---:|" * 7,
    ]
    for (name, n), one in sorted(found.items(), key=lambda item: (list(models()).index(item[0][0]), item[0][1])):
        lines.append(
            f"| {name} | {n} | {one.parameters} | {one.bytes / 1024:.1f} | {one.training:.3f} | {one.inference:.2f} | "
            f"{one.accuracy:.1%} | {one.gap:.0e} |"
        )
    for name in COLOURS:
        times = [found[name, n].training for n in sizes]
        weights = [found[name, n].parameters for n in sizes]
        slopes = [np.polyfit(np.log(sizes), np.log(values), 1)[0] for values in (times, weights)]
        lines.append(f"{name}: training grows like n^{slopes[0]:.2f}, the model like n^{slopes[1]:.2f}")
    return "\n".join(lines)


def draw(found, sizes):
    """Training and prediction against the number of samples."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    for name, colour in COLOURS.items():
        for axes, values in (
            (left, [found[name, n].training for n in sizes]), (right, [found[name, n].inference for n in sizes])
        ):  # fmt: skip
            axes.plot(sizes, values, color=colour, marker="o", ms=3.5)
            label(axes, sizes[-1], values[-1] * 1.15, name, colour, ha="right", va="bottom")
    left.set(xscale="log", yscale="log", xlabel="training samples n", ylabel="processor seconds", title="Training")
    right.set(xscale="log", yscale="log", xlabel="training samples n", ylabel="microseconds a row", title="Prediction")
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few samples, one repetition")
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write them")
    options = parser.parse_args(arguments)
    sizes = [200, 600] if options.quick else [500, 2000, 8000]
    found = study(sizes, 1 if options.quick else 2)
    print(report(found, sizes))
    save(draw(found, sizes), options.figures, "primal_dual")
    return found


if __name__ == "__main__":
    main()
