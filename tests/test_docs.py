"""The pages in docs/ and the examples say what the code does. (Their doctests are run besides.)"""

import importlib
import inspect
import math
import re
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import xlogy
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, SVR, LinearSVC, LogisticRegression, estimators
from maxmargin.estimators._machinery.estimator import CertifiedEstimator
from maxmargin.parts import losses, penalties
from maxmargin.solvers import SOLVERS, TextbookSGD

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "maxmargin"
HOUSE = ROOT / "docs" / "figures" / "house.svg"
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
ROW = re.compile(r"\| `(\w+)\((\w+)=([\d.]+)\)` \| `(.+)` \| `(.+)` \| `(.+)` \| `(.+), (.+)` \|")
TABLE = ROW.findall((ROOT / "docs" / "losses.md").read_text(encoding="utf-8"))
MATHEMATICS = {"log": math.log, "exp": math.exp, "inf": math.inf, "xlogx": lambda t: float(xlogy(t, t))}


def test_the_page_lists_every_loss_with_its_default():
    classes = {name: vars(losses)[name] for name in vars(losses) if hasattr(vars(losses)[name], "conjugate")}
    listed = {name: (parameter, float(default)) for name, parameter, default, *_ in TABLE}
    assert listed == {name: next(iter(loss._field_defaults.items())) for name, loss in classes.items()}


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
@pytest.mark.parametrize("parameter", [0.3, 1.0, 1.7])
def test_the_formulas_of_the_page_are_those_of_the_code(row, parameter):
    name, field, _, value, conjugate, where, low, high = row
    loss = getattr(losses, name)(parameter)

    def evaluate(formula, **variables):
        return eval(formula, {**MATHEMATICS, field: parameter}, variables)

    for y in (-1.0, 1.0) if name.endswith(("Hinge", "Logistic")) else (-1.3, 0.0, 2.0):
        for z in np.linspace(-3.0, 3.0, 61):
            assert loss.value(float(z), y) == pytest.approx(evaluate(value, z=float(z), y=y), abs=1e-12)
        for u in np.linspace(-2.0, 2.0, 81):
            u = round(float(u), 10)  # the ends of the domain exactly
            expected = evaluate(conjugate, u=u, y=y) if evaluate(where, u=u, y=y) else math.inf
            assert loss.conjugate(u, y) == pytest.approx(expected, abs=1e-12)
    assert loss.dual_range(1.0) == (evaluate(low), evaluate(high))


def test_the_traits_of_the_page_are_those_of_the_code():
    page = (ROOT / "docs" / "losses.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (yes|no) \| (yes|no) \| (\d) \|$", page, flags=re.M)
    assert len(listed) == len(TABLE)
    for name, classes, kinked, pieces in listed:
        assert getattr(losses, name)().traits == (classes == "yes", kinked == "yes", int(pieces))


def test_links_of_the_pages_lead_somewhere():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[\w-]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def layers():
    """Those of the import contract, from top to bottom."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (house,) = (contract for contract in contracts if contract["type"] == "layers")
    return [layer.split(" | ") for layer in house["layers"]]


def test_the_layers_of_the_page_are_those_of_the_import_contract():
    table = DESIGN.split("| layer, from top to bottom |")[1].split("\n\n")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, flags=re.M)
    assert [[name.removesuffix("/").removesuffix(".py") for name in re.findall("`(.+?)`", cell)] for cell in cells] == (
        layers()
    )


def test_every_folder_is_named_on_the_page():
    """But for those of single solvers, so that a new one is its files and a line in the registry."""
    folders = [str(file.parent.relative_to(SOURCE)) for file in SOURCE.rglob("*/__init__.py")]
    missing = [folder for folder in folders if folder.count("/") < 2 and f"`{folder}/`" not in DESIGN]
    assert not missing


def test_files_and_functions_of_the_walk_through_a_fit_exist():
    walk = DESIGN.split("## One fit, function by function")[1].split("\n## ")[0]
    files = {name: list(SOURCE.rglob(name)) for name in re.findall(r"`(?:\w+/)*(\w+\.py)`", walk)}
    assert "fit.py" in files
    assert all(files.values())
    code = "\n".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    names = {name.rpartition(".")[2] for name in re.findall(r"`(\w+(?:\.\w+)?)`", walk) if not name.endswith(".py")}
    defined = set(re.findall(r"(?:def|class) (\w+)", code))
    attributes = {"intercept_"}
    assert names - defined == attributes


def test_a_fit_passes_the_functions_of_the_walk_in_their_order():
    walk = DESIGN.split("## One fit, function by function")[1].split("\n## ")[0]
    steps = re.findall(r"^\d+\. `([\w.]+)`", walk, flags=re.M)
    assert len(steps) == 10
    first_calls = {}

    def note(frame, event, argument):
        if event == "call":
            first_calls.setdefault(frame.f_code.co_qualname, len(first_calls))

    X = np.random.default_rng(0).normal(size=(40, 2))
    model, before = SVC(kernel="rbf", max_time=60.0), sys.getprofile()  # which asks for the loop
    sys.setprofile(note)
    try:
        model.fit(X, X[:, 0] > 0.0)
    finally:
        sys.setprofile(before)
    assert [first_calls[step] for step in steps] == sorted(first_calls[step] for step in steps)


def steps_to_the_loop(fit):
    """Functions of ours on the stack when the loop is entered, and what these call themselves before that."""
    package, calls, spine = str(SOURCE), [], None

    def ours(frame):
        return frame is not None and frame.f_code.co_filename.startswith(package)

    def note(frame, event, argument):
        nonlocal spine
        if spine is not None or event != "call" or not ours(frame) or frame.f_code.co_name.startswith("<"):
            return
        callers, above = [], frame.f_back
        while above is not None:
            if ours(above):
                callers.append(above.f_code)
            above = above.f_back
        if frame.f_code.co_qualname == "minimize":
            spine = callers
        else:
            calls.append((frame.f_code, callers[0] if callers else None))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        fit()
    finally:
        sys.setprofile(before)
    return {code for code, caller in calls if code in spine or caller in spine}


@pytest.mark.parametrize("estimator", [SVC, SVR, LinearSVC, LogisticRegression])
def test_a_stranger_opens_at_most_fifteen_functions_on_the_way_to_the_loop(estimator):
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = estimator(solver="smo" if estimator in (SVC, SVR) else "newton")  # which asks for the loop
    model.fit(X, X[:, 0] > 0.0)  # loads what is loaded once
    steps = steps_to_the_loop(lambda: model.fit(X, X[:, 0] > 0.0))
    assert len(steps) <= 15
    assert len({code.co_filename for code in steps}) <= 8


def test_the_solvers_of_the_page_are_those_of_the_registry_with_their_needs():
    rows = re.findall(r'^\| `"(\w+)"` \| .+? \| (.+) \|$', DESIGN, flags=re.M)
    said = {}
    for samples, text in rows:
        everybody = re.search(r"\((?:all|both): clients\)", text)
        for name, note in re.findall(r"`(\w+)`( \(clients\))?", text):
            said[name] = samples, bool(note) or (everybody is not None and text.index(f"`{name}`") < everybody.start())
    assert said == {name: (kind.needs.samples, kind.needs.clients) for name, kind in SOLVERS.items()}


@pytest.fixture
def example(monkeypatch):
    """An example by its name, as `python examples/name.py` would find its neighbours."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return importlib.import_module


def test_the_picture_of_the_house_is_that_of_the_folders(example, tmp_path):
    """If this fails, `python examples/house.py` draws it again."""
    module = example("house")
    assert module.layers() == layers()
    assert set(module.ONE_FIT) <= {name for layer in layers() for name in layer}
    drawn, kept = (path.read_text(encoding="utf-8") for path in (module.main(["--figures", str(tmp_path)]), HOUSE))
    texts = [re.findall(r"<text[^>]*>([^<]+)</text>", picture) for picture in (drawn, kept)]
    assert texts[0] == texts[1]
    folders = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    assert {f"{name}/" for name in folders} <= set(texts[1])
    assert {name for layer in layers() for name in layer} - set(folders) <= set(texts[1])
    assert HOUSE.stat().st_size < 60_000


def test_the_boundaries_between_planets(example, tmp_path):
    least_squares, street, half_width = example("planets").main(["--figures", str(tmp_path)])
    assert least_squares == pytest.approx(27.733, abs=1e-3)
    assert (street, half_width) == pytest.approx((3.65, 1.25), abs=1e-6)
    assert (tmp_path / "planets.svg").stat().st_size < 150_000


def test_the_corner_of_optimality(example, tmp_path):
    """Items 0-40 and 0-41: after some steps a few samples are off the corner, at the optimum none is."""
    with pytest.warns(ConvergenceWarning):
        rough, exact = example("optimality").main(["--figures", str(tmp_path)])
    assert (tmp_path / "optimality.svg").stat().st_size < 150_000
    assert rough.shares.sum() > 0.1
    assert exact.shares.sum() < 1e-12
    for part, on_it in zip(exact.partition, ("surplus", None, "slacks"), strict=True):
        if on_it is not None:
            assert np.all(getattr(exact, on_it)[part] > 0.0)


def test_the_programs_that_the_lecture_names_have_a_method_here():
    """Item 0-46."""
    page = (ROOT / "docs" / "exact.md").read_text(encoding="utf-8")
    chart = page.split("## The programs that the lecture names")[1]
    rows = re.findall(r"^\| ([^|`]+) \| [^|]+ \| (.*`.*) \|$", chart, flags=re.M)
    named = {name for programs, _ in rows for name in programs.split(", ")}
    assert named == {"Cplex", "OOQP", "OOPS", "Mosek", "SVM-QP", "SMO", "SVMlight", "SVMperf", "Pegasos"}
    for _, here in rows:
        assert set(re.findall(r"`([a-z_]+)`", here)) - {"rank"} <= set(SOLVERS)


def test_the_complexity_table_is_counted(example):
    """Items 0-36 to 0-38 and E0-5: on small problems, with the families of the page and what is claimed of them."""
    module = example("complexity")
    page = (ROOT / "docs" / "exact.md").read_text(encoding="utf-8")
    for name, family in module.FAMILIES.items():
        assert re.search(
            rf"^\| {name} \|.*\| {re.escape(f'{family.claimed} | {family.corrected} |')}$", page, flags=re.M
        )
    found = module.study(
        quick=True, names=["interior point", "active set", "decomposition", "cutting plane", "Pegasos"]
    )
    steps = [work.iterations for work in found["interior point", "C"][1]]
    assert max(steps) <= 2 * min(steps) <= 80
    for n, work in zip(*found["active set", "n"], strict=True):
        assert work.iterations < 20 * n
        assert work.free <= n
    rough, exact = found["decomposition", "eps"][1]
    assert rough.iterations < exact.iterations
    assert exact.kernel_values <= 100**2
    for name in ("cutting plane", "Pegasos"):
        strong, weak = found[name, "lam"][1]
        assert strong.iterations < weak.iterations
    assert module.exponent([1.0, 10.0, 100.0], [3.0, 300.0, 30000.0]) == pytest.approx(2.0)


def test_the_figure_of_the_losses_is_drawn_from_their_methods(example, tmp_path):
    module = example("losses")
    module.main(["--figures", str(tmp_path)])
    assert (tmp_path / "losses.svg").stat().st_size < 150_000
    margins = np.linspace(-2.0, 3.0, 101)
    ideal = np.array([module.misclassification(m, 1.0) for m in margins])
    for name in ("hinge", "squared hinge"):
        assert np.all(module.values(module.CLASSIFICATION[name][0], margins) >= ideal)
    hinge, huber = (module.values(module.CLASSIFICATION[name][0], margins) for name in ("hinge", "Huber hinge"))
    assert np.all((huber <= hinge) & (hinge <= huber + 0.25))
    logistic, dual_of_hinge = module.CLASSIFICATION["logistic"][0], module.dual_terms(losses.Hinge(), margins)
    assert np.all(module.values(logistic, margins) >= math.log(2.0) * ideal)
    assert np.array_equal(np.isnan(dual_of_hinge), (margins < 0.0) | (margins > 1.0))


def test_the_figure_of_sparse_paths_shows_what_was_computed(example, tmp_path):
    """3-15, 3-16: path, curve and subsets are the library's, and the tangent touches the curve."""
    module = example("sparse_paths")
    path, curve, best, refitted = module.main(["--figures", str(tmp_path)])
    assert (tmp_path / "sparse_paths.svg").stat().st_size < 150_000
    assert path.certificate(1.0).relative_gap < 1e-9
    found = curve.penalised(module.PRICE * curve.lambdas[0])
    t = np.linspace(0.0, curve.norms[-1], 101)
    assert np.all(curve.error_at(t) >= found.error - found.lam * (t - found.norm) - 1e-9 * curve.errors[0])
    assert np.all(refitted >= best.errors[1:] * (1.0 - 1e-9))
    assert refitted[-1] == pytest.approx(best.errors[-1])


def test_more_data_is_less_work_for_a_stream_and_more_for_newton(example, tmp_path):
    module = example("more_data_less_work")
    study = module.main(["--quick", "--figures", str(tmp_path)])
    source = study.source
    assert np.all(study.gaps <= 1e-8)

    # The risk is that of many samples, the optimum no worse than its neighbours, and below both is the best function's.
    X, y = source.draw(200_000, 99)
    for w in (source.optimum, -source.optimum, np.ones(source.d)):
        sampled = np.maximum(0.0, 1.0 - y * (X @ w))
        assert source.risk(w) == pytest.approx(sampled.mean(), abs=5.0 * sampled.std() / math.sqrt(y.size))
    objective = [0.5 * source.lam * w @ w + source.risk(w) for w in source.optimum * np.array([[1.0], [0.99], [1.01]])]
    assert objective[0] == min(objective)
    assert study.approximation > 0.0

    # The three parts are the whole.
    j = len(study.sizes) - 1
    w = next(module.pegasos_at([study.budget], *source.draw(study.sizes[j], 0), source.lam))
    parts = study.approximation + study.estimation[0, j] + study.at_budget[0, j]
    assert source.least_risk + parts == pytest.approx(source.risk(w), abs=1e-12)

    # More samples: a better exact minimiser, fewer rows for the stream, more for Newton's method.
    assert np.all(np.diff(study.estimation.mean(axis=0)) < 0.0)
    rows = {method: module.quantiles(study.arrivals[method][..., 1], 0.5) for method in module.PATHS}
    assert math.isinf(rows["newton"][0, 0])  # too few samples for the target
    assert rows["newton"][1, 0] < rows["newton"][2, 0]
    assert rows["sgd, a stream"][1, 1] > rows["sgd, a stream"][2, 1]
    assert rows["pegasos"][2, 0] < study.sizes[2] < rows["newton"][2, 0]  # less than one pass against several
    for name in ("more_data_time", "more_data_parts"):
        assert (tmp_path / f"{name}.svg").stat().st_size < 150_000


def test_accuracy_and_margin_cost_what_theory_says(example, tmp_path):
    """2-12, 0-16, 0-23: rows to a target, and to a fixed one with a smaller margin; counted, not timed."""
    module = example("accuracy_and_margin")
    source = module.Squeezed(margin=0.25)
    X, y = source.draw(200_000, 99)
    for w in (source.optimum, np.ones(source.d)):  # the risk is that of many samples
        sampled = np.maximum(0.0, 1.0 - y * (X @ w))
        assert source.risk(w) == pytest.approx(sampled.mean(), abs=5.0 * sampled.std() / math.sqrt(y.size))
    assert source.risk(source.optimum) == pytest.approx(module.Squeezed().risk(module.Squeezed().optimum), rel=1e-6)
    by_accuracy, by_margin = module.main(["--quick", "--figures", str(tmp_path)])
    for found in (by_accuracy, by_margin):
        for method in ("pegasos", "sgd, a stream"):
            assert np.all(np.diff(found[method][:4, 1]) >= 0.0)  # tighter targets and smaller margins take more rows
            assert found[method][2, 1] < found["newton"][2, 1]
    assert by_margin["pegasos"][3, 1] > 4.0 * by_margin["pegasos"][0, 1]
    newton = by_margin["newton"][:, 1]
    assert newton.max() < 1.5 * newton.min()  # which no scale can disturb
    assert (tmp_path / "more_data_accuracy.svg").stat().st_size < 150_000


def test_what_the_clients_of_saddle_send_is_what_theory_says(example, tmp_path):
    """2-06, 2-09, 2-10, 2-13, 2-26, 2-27: over a star, hard margins and nu-SVM, beside Gilbert and both bounds."""
    module = example("communication")
    found = module.main(["--quick", "--figures", str(tmp_path)])
    for one in (one for ones in found.values() for one in ones):
        assert one.gap <= one.setting.eps
        assert one.total > one.setting.lower_bound
    for (kind, axis, method), ones in found.items():
        if method == module.PAPER:
            for one in ones:  # beside the steps there is a look at the gap for every d of them
                most = 2.5 if kind == module.HARD else 10.0  # a projection is 6 numbers for each of its rounds
                assert module.PER_STEP * one.iterations <= one.scalars <= most * module.PER_STEP * one.iterations
                assert 0.1 <= one.total / one.hidden <= 2.0 * most
        if axis == "k":  # no client sends or receives more because there are others, and the iterates are the same
            assert len({one.iterations for one in ones}) == 1
            assert ones[1].scalars <= 1.1 * ones[0].scalars
        elif kind == module.HARD or method == module.PAPER:  # the others have searches of which one has few rounds
            assert ones[0].total < ones[1].total
    for kind in (module.HARD, module.NU):
        assert found[kind, "d", module.PAPER][1].total > 3.0 * found[kind, "d", module.PRACTICAL][1].total
    for name in ("communication", "star"):
        assert (tmp_path / f"{name}.svg").stat().st_size < 150_000


def test_the_regimes_of_the_step_are_those_of_the_theory(example):
    """Seed items 3-04 to 3-06: paths drawn by the solver and, where it refuses, from the recursion of the error."""
    module = example("least_squares")
    plane, paths, refusal = module.regimes()
    assert f"0 < step < 2 / |A^T S A + lam I| = {2.0 / plane.norm:.6g}" in refusal
    errors = {name: np.linalg.norm(path - plane.best, axis=1) for name, path in paths.items()}
    assert errors["right"][-1] < 0.02 * errors["right"][0]
    assert 0.3 * errors["too small"][0] < errors["too small"][-1] < errors["too small"][0]
    assert np.all(np.diff(plane.cost(paths["too big"])[-4:]) > 0.0)
    step = module.REGIMES["too small"] / plane.norm
    for k, w in enumerate(paths["too small"]):
        np.testing.assert_allclose(w - plane.best, plane.error_after(k, step, np.zeros(2)), atol=1e-12)


def test_majorisers_of_the_figure_touch_and_lie_above(example):
    """Seed items 3-07 and 3-09."""
    module = example("least_squares")
    w = np.linspace(-3.0, 5.0, 401)
    path = module.majorised()
    for there, following in pairwise(path):
        above = module.majoriser(w, there)
        assert np.all(above >= module.on_a_line(w) - 1e-12)
        assert module.majoriser(there, there) == pytest.approx(module.on_a_line(there))
        assert module.majoriser(following, there) <= above.min() + 1e-12  # where the solver went
    assert np.all(np.diff(module.on_a_line(path)) < 0.0)


def test_balls_touch_where_linear_programming_says(example):
    """Seed item 3-15: the smallest 1-norm is at a corner, the smallest 2-norm at ``A^+ d``."""
    module = example("least_squares")
    (a, d), (corner, nearest) = module.BALLS, module.touching_points()
    program = linprog(np.ones(4), A_eq=[[*a, *-a]], b_eq=[d])
    np.testing.assert_allclose(corner, program.x[:2] - program.x[2:], atol=1e-12)
    np.testing.assert_allclose(nearest, np.linalg.pinv(a[None]) @ [d], atol=1e-12)
    assert np.count_nonzero(corner) == 1
    assert np.count_nonzero(nearest) == 2


def test_descent_in_turns_with_shrinkage(example):
    """Seed items 3-13 and 3-20: toward the origin, or toward the axes by a constant, where it stays."""
    module = example("least_squares")
    plane, lam = module.Plane.around((1.9, 0.3), (1.0, 0.75), 0.6), 0.9
    tau, start = 0.55 / plane.norm, np.array([-0.7, 2.3])
    path, z = module.in_turns(penalties.L2(lam), plane, tau, start, 10)
    np.testing.assert_allclose(path[1:], z / (1.0 + lam * tau), rtol=1e-12)
    path, z = module.in_turns(penalties.L1(lam / 2.0), plane, tau, start, 10)
    np.testing.assert_allclose(path[1:], np.sign(z) * np.maximum(np.abs(z) - lam * tau / 2.0, 0.0), atol=1e-12)
    assert path[-1, 1] == 0.0


def test_every_step_of_the_staircase_is_along_an_axis_and_down(example):
    """Seed item 4-11."""
    module = example("least_squares")
    plane, corners = module.staircase()
    moves = np.diff(corners, axis=0)
    assert np.all(np.count_nonzero(moves, axis=1) == 1)
    assert np.all(np.diff(plane.cost(corners) + 1e-3 * (corners**2).sum(axis=1)) < 0.0)


def test_lasso_against_ridge_as_the_page_has_it(example, tmp_path):
    """Seed items 3-14, 3-17 and 3-18: sparse, a small error of the model; ridge: neither, but good predictions."""
    module = example("lasso_ridge")
    found = module.main(["--figures", str(tmp_path)])
    assert module.table_of(found) in (ROOT / "docs" / "least_squares.md").read_text(encoding="utf-8")
    lasso, debiased, ridge, nothing = found.best
    assert np.count_nonzero(lasso.w) < 30
    assert np.count_nonzero(ridge.w) == found.truth.size
    assert debiased.model_error < lasso.model_error < 0.2 * ridge.model_error
    assert ridge.prediction_error < 0.1 * ridge.model_error < nothing.prediction_error
    A, target, _ = module.planted(150, 160, module.SUPPORT, module.NOISE, seed=4, alike=module.ALIKE)
    for fit in found.lasso[5:20]:  # least squares on the selected features fits better, and leaves nothing of them
        after = module.debiased(A, target, fit.w)
        rest = target - A @ after
        assert np.linalg.norm(rest) <= np.linalg.norm(target - A @ fit.w)
        np.testing.assert_allclose(A[:, fit.w != 0.0].T @ rest, 0.0, atol=1e-10)
    residuals = [np.linalg.norm(target - A @ fit.w) for fit in found.lasso]
    assert np.all(np.diff(residuals) < 1e-6)  # seed item 3-16: the constraint that belongs to each strength
    assert (tmp_path / "lasso_ridge.svg").stat().st_size < 150_000


def test_every_method_of_the_figure_goes_to_the_optimum(example, tmp_path):
    """Certified gaps; and seed item 3-37: no coefficient of the textbook's SGD is zero, proximal steps find zeros."""
    courses = example("least_squares").main(["--quick", "--figures", str(tmp_path)])
    for course in (course for courses_of in courses.values() for course in courses_of.values()):
        assert min(course.gaps) < 0.5 * course.gaps[0]
    assert courses["LASSO"]["working_set"].gaps[-1] <= 1e-10
    assert courses["LASSO"]["sgd_textbook"].zeros == 0 < courses["LASSO"]["sgd"].zeros
    for name in ("landweber", "majoriser", "sparse_geometry", "least_squares_work"):
        assert (tmp_path / f"{name}.svg").stat().st_size < 150_000


def test_orders_of_stochastic_steps(example, tmp_path):
    """Seed items 3-33, 3-34 and 3-36: without replacement is better, and a mean step is one of the whole gradient."""
    module = example("stochastic")
    assert module.main(["--figures", str(tmp_path)]).stat().st_size < 150_000
    found = module.courses()
    last = {key: course[-8:].mean() for key, course in found.items()}
    assert last[1.0, "permutation"] < last[1.0, "cyclic"] < last[1.0, "uniform"]
    for order in module.ORDERS:
        assert last[1.0, order] < 0.1 * last[0.0, order]
        assert last[0.0, order] > 0.01  # a neighbourhood
    A, d, single, _ = module.walk(1)
    problem, solver = module.posed(penalties.L2(module.LAM), A, d), TextbookSGD("cyclic", step=0.06)
    state = solver.advance(problem, solver.start(problem, None), 1)
    np.testing.assert_allclose(single[-1], state.theta, atol=1e-12)
    w = np.array([0.3, -0.2])
    mean = np.mean([-(t - x @ w) * x + module.LAM / 20 * w for x, t in zip(A, d, strict=True)], axis=0)
    np.testing.assert_allclose(mean, (A.T @ (A @ w - d) + module.LAM * w) / 20, atol=1e-12)


ESTIMATORS = [kind for name in estimators.__all__ if hasattr(kind := getattr(estimators, name), "get_params")]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_parameter_of_an_estimator_is_described_with_its_default(estimator):
    section = estimator.__doc__.split("Parameters\n")[1].split("\n\n    ")[0]
    if issubclass(estimator, CertifiedEstimator):  # whose docstrings are completed
        assert not re.search(r"As in (every|`\w+`\.)", section)
    entries = re.findall(r"^    (\w[\w, ]*)(?: : (.*))?$", section, flags=re.MULTILINE)
    described = {name: rest for names, rest in entries for name in names.split(", ")}
    parameters = inspect.signature(estimator).parameters
    assert described.keys() == parameters.keys()
    for name, rest in described.items():
        if "default=" in rest:
            assert eval(rest.split("default=")[1]) == parameters[name].default, name
