"""Linear classification by stochastic gradient descent."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import ClassVar

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from maxmargin.estimators._machinery import check, multiclass
from maxmargin.estimators._machinery.check import ClassWeight
from maxmargin.estimators._machinery.estimator import CLASS_WEIGHT_CONSTRAINT
from maxmargin.estimators._machinery.fit import all_or_nothing
from maxmargin.estimators._machinery.linear import LinearClassifier
from maxmargin.estimators._machinery.logistic import LogisticProbabilities
from maxmargin.estimators._machinery.stochastic import (
    CLASSIFICATION_LOSSES,
    STOCHASTIC_CONSTRAINTS,
    StochasticEstimator,
)
from maxmargin.operators import MatrixLike


@dataclass(eq=False, repr=False)
class SGDClassifier(LogisticProbabilities, StochasticEstimator, LinearClassifier):
    """Linear classifier, fitted by stochastic gradient descent.

    Minimises, for every class against the rest,

    ``1/S sum_i c_i loss(y_i, x_i.w + b) + alpha R(w)``

    where ``c_i`` is the class weight times the sample weight, ``S`` the sum of the sample weights, and ``R(w)`` one of
    ``|w|^2 / 2``, ``|w|_1`` and ``l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2``. `fit` minimises it over given samples
    and proves how close it came; `partial_fit` makes one pass over fresh samples of a stream.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "huber_hinge", "modified_huber", "log_loss", "perceptron", "squared_error", \
"huber", "epsilon_insensitive", "squared_epsilon_insensitive"}, default="hinge"
        "huber_hinge" is the hinge with a parabola of width 1/2 for a corner, "modified_huber" four times that with the
        width 2.
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        ``R(w)``. None is no penalty, as is ``alpha=0``: the gap is then that among coefficients up to ten times as
        large as the largest one that was found.
    alpha : float, default=0.0001
        Strength of the penalty; from 0 on, and above 0 for ``learning_rate="optimal"``.
    l1_ratio : float, default=0.15
        Share of the L1 norm, for "elasticnet"; otherwise it may be None.
    fit_intercept : bool, default=True
        Whether there is an intercept; it is not penalised.
    max_iter : int, default=1000
        Limit on the epochs of `fit`, or on the iterations of another `solver`; -1 for none.
    shuffle : bool, default=True
        Whether samples come in a new random order every epoch.
    epsilon : float, default=0.1
        Half the width of the tube of the insensitive losses; where "huber" passes from a parabola to a line.
    n_jobs : int, default=None
        Number of threads for several classes; None is as many as BLAS may use. Results are the same for any number.
    random_state : int, RandomState or None, default=None
        Seed of the order of the samples; None is a fixed seed.
    learning_rate : {"optimal", "invscaling", "constant", "adaptive", "pa1", "pa2"}, default="optimal"
        The step after ``t`` others: ``eta / (1 + alpha eta t)`` with the best ``eta`` of some that are tried on up to
        1000 samples, ``eta0 / (1 + t)^power_t``, ``eta0``, or ``eta0`` divided by 5 after `n_iter_no_change` epochs
        without progress. "pa1" and "pa2" are passive-aggressive steps, for the loss "hinge" only: of length
        ``min(eta0, l / |x|^2)`` and ``l / (|x|^2 + 1 / (2 eta0))`` for the loss ``l`` of a sample.
    eta0 : float, default=None
        The first step, or the largest one, of all but "optimal"; None tries some.
    power_t : float, default=0.5
        Of "invscaling".
    early_stopping : bool, default=False
        Whether to hold samples out, and to end the fit when the score of the model on these no longer rises. The
        certificate is about the other samples.
    validation_fraction : float, default=0.1
        Share of the samples that are held out, of each class, with `early_stopping`.
    n_iter_no_change : int, default=5
        Epochs without progress after which a fit ends, or "adaptive" divides the step.
    class_weight : dict or "balanced", default=None
        Weights of the classes; "balanced" is for `fit` only.
    warm_start : bool, default=False
        Whether `fit` starts from the last fit.
    average : bool, int or "auto", default="auto"
        Whether the model is the average over all points of the path, or over those from a number of samples on. "auto"
        weighs points by the third power of their number (with ``stop="gap"``, it is the average over the last half of
        the path at least), unless the penalty has an L1 part, whose zeros an average would blur: then the last one.
    order : {"auto", "cyclic", "permutation", "uniform"}, default="auto"
        How samples are drawn; "auto" is "permutation" with `shuffle`, "cyclic" without.
    solver : str, default="sgd"
        Name of a solver for `fit`; others than "sgd" solve the same problem if they know its penalty. Parameters that
        say how "sgd" goes about it have to be left at their defaults then; "pegasos" has `order` and `average` too.
    max_time : float, default=None
        Limit of `fit` in seconds; the best point so far is kept.
    callback : callable, default=None
        Called with a `Record` after every round of `fit`; a true value stops it.
    tol : float, default=0.001
        By how much the mean objective of an epoch has to be smaller than the smallest one before, or the score of
        samples that are held out larger: if it is not in `n_iter_no_change` epochs one after another, the fit ends.
        None makes all `max_iter` epochs. With ``stop="gap"`` and other solvers it is the certified gap to reach.
    stop : {"objective", "gap"}, default="objective"
        "objective" ends a fit when the objective no longer falls by `tol`, as scikit-learn does; `duality_gap_` says
        how far from the optimum that was. "gap" ends it when the certified relative gap is at most `tol`.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, t_, n_features_in_, feature_names_in_
        As in scikit-learn.
    support_, dual_coef_ : ndarray
        The samples with a non-zero dual variable, and these variables, one row per binary problem.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVC`; the two objectives are ``S`` times the values of the formula above. After `partial_fit` they judge
        the model on the last samples alone.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SGDClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SGDClassifier(loss="log_loss", alpha=0.1).fit(X, y)
    >>> print(model.status_)
    Stopped because the objective no longer falls
    >>> model.set_params(stop="gap", tol=1e-2).fit(X, y).duality_gap_ <= 1e-2
    True

    """

    loss: str = "hinge"
    _: KW_ONLY
    class_weight: ClassWeight = None

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **STOCHASTIC_CONSTRAINTS,
        "loss": [StrOptions(set(CLASSIFICATION_LOSSES))],
        "class_weight": CLASS_WEIGHT_CONSTRAINT,
        "n_jobs": [Integral, None],
    }

    loss_functions: ClassVar[dict[str, tuple[object, ...]]] = CLASSIFICATION_LOSSES

    def partial_fit(
        self, X: MatrixLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> SGDClassifier:
        """Learn from one pass over fresh samples.

        The step goes on shrinking from call to call. The certificate is that of the objective over these samples
        alone: a model that has learnt much from others may well have a large gap on them, and no warning is given.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Class labels; not every class has to occur.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever occur; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's loss.

        Returns
        -------
        self : SGDClassifier
            The estimator, one pass wiser.

        """
        with all_or_nothing(self):
            first = not self.__sklearn_is_fitted__()
            X, y = self._prepare(X, y, reset=first)
            self.classes_, codes = check.check_stream_classes(self, y, classes)
            s = check.check_sample_weight(self, X, sample_weight)
            if self.class_weight is not None:
                s = s * check.class_weights(self.class_weight, self.classes_, codes, s)[codes]
            self._learn(X, y, multiclass.binary_tasks(codes, self.classes_, "ovr", s), s)
        return self
