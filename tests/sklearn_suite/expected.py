"""Which of scikit-learn's own tests fail with our classes in their place, and why: a sentence for each.

Keys are regular expressions of test names. `ours` marks them as expected failures, and a test that passes all the same
fails the run.
"""

NEVER_OVERWRITTEN = "copy_X=False allows to overwrite the samples, which ours never do; the test asserts that they are."
DOUBLE = "Coefficients are float64 whatever the samples are: certificates are about them."
NO_NEED_TO_WARN = "scikit-learn warns because its solver does badly there; ours solves the problem, with a proof."
OWN_SOLVER = "solver_ and errors name the solver that did the work; scikit-learn's names stand for one of ours."
DEPRECATED = "The test asserts a deprecation warning about what ours never did or always could do."

COORDINATE_DESCENT = {
    "test_enet_nonfinite_params": "Values whose squares overflow are refused before the fit, in a sentence of our own.",
    "test_lasso_dual_gap": "The gap is 6e-15 where the test computes 4e-15: both are rounding.",
    "test_lasso_alpha_warning": NO_NEED_TO_WARN,
    "test_1d_multioutput_enet_and_multitask_enet_cv": "Two solvers agree to the tolerance of 1e-4, not to 1e-7.",
    "test_1d_multioutput_lasso_and_multitask_lasso_cv": "Two solvers agree to the tolerance of 1e-4, not to 1e-7.",
    "test_warm_start_convergence_with_regularizer_decrement": "Both take one iteration, where the test wants more.",
    "test_path_unknown_parameter": "An unknown keyword is a TypeError of Python itself, not a ValueError.",
    "test_check_input_false": "Samples are always checked, so that a wrong type is converted instead of refused.",
    "test_enet_copy_X_False_check_input_False": NEVER_OVERWRITTEN,
    "test_overridden_gram_matrix": "A Gram matrix is checked and not used, so that none is ever overridden.",
    "test_enet_float_precision": DOUBLE,
    r"test_enet_coordinate_descent_raises_convergence\[Lasso": NO_NEED_TO_WARN,
    r"test_sparse_input_convergence_warning\[.*-(ElasticNetCV|LassoCV)\]": "tol=0 is refused: no gap is ever zero.",
    "test_multi_task_lasso_and_enet": "The warning of a fit that max_iter ends is in our own words.",
    "test_lassoCV_does_not_set_precompute": "The test counts calls of a class that it puts into scikit-learn's module.",
    r"test_enet_ridge_consistency\[42-False-3-(0.1|1.0)\]": "Coefficients differ by 1e-6, within the certified gap.",
    "test_path_function_deprecated_n_alphas": DEPRECATED,
}
RIDGE = {
    "test_dtype_match": DOUBLE,
    "test_lbfgs_solver_error": NO_NEED_TO_WARN,
    "test_n_iter": "n_iter_ is the number of iterations for every solver; scikit-learn has None for some.",
    r"test_regularization_limits_ridge_gcv\[csr_.*-svd-": DEPRECATED,
    "test_ridge_fit_intercept_sparse_error": "Every solver of ours fits intercepts of sparse samples.",
    "test_ridge_fit_intercept_sparse_sag": NO_NEED_TO_WARN,
    "test_ridge_positive_error_test": OWN_SOLVER,
    r"test_ridge_regression\[.*-(sparse_cg|lsqr|sag|saga)\]": OWN_SOLVER,
}
BASE = {
    "test_raises_value_error_if_positive_and_sparse": "positive=True works for sparse samples, too.",
    r"test_inplace_data_preprocessing\[.*-None\]": NEVER_OVERWRITTEN,
}
EXPECTED = {
    "sklearn.linear_model.tests.test_coordinate_descent": COORDINATE_DESCENT,
    "sklearn.linear_model.tests.test_ridge": RIDGE,
    "sklearn.linear_model.tests.test_base": BASE,
}
