"""The options of every command, and the combinations of options that are refused."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from functools import partial

from maxmargin import SVC, SVR, DistributedSVC, LinearSVC, LinearSVR, OneClassSVM
from maxmargin.cli.compiling import compile_all
from maxmargin.cli.completion import SHELLS, completion
from maxmargin.cli.demo import demo
from maxmargin.cli.info import info
from maxmargin.cli.kinds import OF_CLIENTS, OF_ONE_PROCESS, flag, has_clients, kind_of, refuse_idle_options
from maxmargin.cli.output import OPTIONS, CommandError, option
from maxmargin.cli.predict import certify, predict
from maxmargin.cli.train import train
from maxmargin.communicators.launcher import under_mpirun
from maxmargin.parts.kernels import KERNELS, parameters_of

OF_LIBSVM = ("linear", "poly", "rbf", "sigmoid", "precomputed")  # kernels by their numbers there
KERNEL_NAMES = (*OF_LIBSVM, *(name for name in KERNELS if name not in OF_LIBSVM))


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=predict)
    parser.add_argument("data", metavar="DATA", help="LIBSVM or CSV file; the labels may be unknown")
    parser.add_argument("model", metavar="MODEL", help="a file written by maxmargin train")
    parser.add_argument("out", metavar="OUT", nargs="?", help="where to write (default: standard output)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--scores", action="store_true", help="write decision values instead of labels")
    what.add_argument("--proba", action="store_true", help="write probabilities, if the model has them")
    _add_data_options(parser)


def _add_certify(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=certify)
    parser.add_argument("data", metavar="DATA", help="the training data, in the same order")
    parser.add_argument("model", metavar="MODEL", help="a file written by maxmargin train")
    _add_weights(parser)
    parser.add_argument("--tol", type=float, help="largest relative gap to accept (default: the tol of the model)")
    _add_data_options(parser)


def _add_info(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=info)
    parser.add_argument("model", metavar="MODEL", help="a file written by maxmargin train")


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=completion)
    parser.add_argument("shell", choices=SHELLS, help='eval "$(maxmargin completion bash)", or for zsh or fish')


def _add_data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("auto", "libsvm", "csv"), default="auto", help="of DATA (default: auto)")
    parser.add_argument("--target", metavar="NAME", help="target column of a CSV or Parquet file: its name")
    parser.add_argument("--zero-based", action="store_true", help="the indices of a LIBSVM file start at 0, not at 1")
    parser.add_argument(
        "--stream",
        action="store_true",
        help="read DATA chunk by chunk, as memory does not hold it: a LIBSVM file, or a Parquet, .npy or .npz file or "
        "directory, with the target column or the .npy file of the labels as --target",
    )


def _add_train(parser: argparse.ArgumentParser) -> None:
    """The options of ``train``. Those that are parameters have the names and defaults of the estimators."""
    parser.set_defaults(run=_checked_train)
    parser.add_argument("data", metavar="DATA", help="LIBSVM or CSV file, plain or compressed (.gz, .bz2, .xz)")
    parser.add_argument("model", metavar="MODEL", nargs="?", help="where to write (default: the name of DATA + .mm)")
    _add_data_options(parser)
    parser.add_argument("--features", dest="n_features", type=int, metavar="N", help="number of columns of LIBSVM data")
    parser.add_argument("-q", "--quiet", action="store_true", help="no table; warnings and errors are still shown")
    add, told = partial(parser.add_argument, default=argparse.SUPPRESS), _with_default
    add("--verbose", action="store_const", const=1, help="show a progress line on standard error")
    add("--linear", action="store_true", help="linear scores, the intercept penalised: LinearSVC, LinearSVR")
    add("--regression", action="store_true", help="the targets are quantities, not classes: SVR, LinearSVR, NuSVR")
    add("--nu", type=float, metavar="NU", help=told("nu", "bound on errors, in the place of --C: NuSVC, NuSVR"))
    add("--one-class", action="store_true", help="what most samples have in common, labels unread: OneClassSVM")
    add("--epsilon", type=float, metavar="E", help=told("epsilon", "error that costs nothing, with --regression"))
    likely = told("probability", "for predict --proba")
    add("--probability", action="store_true", help=likely)
    _add_weights(parser)
    parser.add_argument("--scale", action="store_true", help="standardise the columns; predict does it too")
    parser.add_argument("--cv", type=int, metavar="K", help="only mean and spread of the score over K folds, no model")
    add("--loss", choices=("hinge", "squared_hinge"), help=told("loss", "what a margin below one costs"))
    kernel = told("kernel", "LIBSVM's numbers 0 to 4 also work")
    add("-t", "--kernel", type=_kernel_name, choices=KERNEL_NAMES, help=kernel)
    add("-c", "--C", type=float, metavar="C", help=told("C", "weight of the losses"))
    add("-g", "--gamma", type=_bandwidth, metavar="GAMMA", help=told("gamma", "number, scale or auto"))
    add("-d", "--degree", type=int, metavar="N", help=told("degree", "of --kernel poly"))
    add("-r", "--coef0", type=float, metavar="R", help=told("coef0", "of --kernel poly and sigmoid"))
    weight = told("class_weight", "the same total weight for all classes, or a factor for some")
    add("--class-weight", type=_class_weight, metavar="balanced|LABEL:WEIGHT,...", help=weight)
    intercept = told("intercept", "auto: free, with --linear penalised")
    add("--intercept", choices=("free", "penalised", "none"), help=intercept)
    strategy = told("multi_class", "one against one, or one against the rest")
    add("--multi-class", choices=("ovo", "ovr"), help=strategy)
    add("--solver", metavar="NAME", help=told("solver", "how to solve"))
    add("--tol", type=float, help=told("tol", "relative duality gap at which to stop"))
    add("--max-iter", type=int, metavar="N", help=told("max_iter", "limit on iterations; -1: no limit"))
    limit = told("max_time", "limit on time; the best model so far is kept")
    add("--max-time", type=float, metavar="SECONDS", help=limit)
    add("-m", "--cache-size", type=float, metavar="MB", help=told("cache_size", "memory for kernel rows"))
    seed = told("random_state", "of solvers that draw random numbers")
    add("--seed", dest="random_state", type=int, metavar="N", help=seed)
    clients = parser.add_argument_group(
        "several processes or machines",
        "DistributedSVC, with --linear: clients that read their own parts of a LIBSVM, Parquet or .npy file. Under "
        "mpirun the ranks are the clients, and no option is needed.",
    )
    add = partial(clients.add_argument, default=argparse.SUPPRESS)
    add("--engine", choices=("in_process", "mpi", "dask"), help=told("engine", "threads, mpirun, or a Dask cluster"))
    ways = told("topology", "all gather from each other, or all talk to the first")
    add("--topology", choices=("gather", "star"), help=ways)
    many = told("n_clients", "how many; none: one for each processor or worker")
    add("--clients", dest="n_clients", type=int, metavar="N", help=many)
    add("--scheduler", metavar="ADDRESS", help="of a Dask cluster (default: one of this machine)")
    patience = told("round_timeout", "longest wait for a client")
    add("--round-timeout", type=float, metavar="SECONDS", help=patience)
    state = told("checkpoint", "where to keep the state, and to go on from if it is there")
    add("--checkpoint", metavar="FILE", help=state)
    add("--checkpoint-every", type=float, metavar="SECONDS", help=told("checkpoint_every", "how often"))
    failure = told("on_failure", "what to do if a client is lost")
    add("--on-failure", choices=("raise", "restart"), help=failure)


def _with_default(name: str, text: str) -> str:
    """A help text with the default that the signatures of the estimators give to a parameter."""
    groups = ((SVC, LinearSVC, DistributedSVC), (SVR, LinearSVR), (OneClassSVM,))
    signatures = [[inspect.signature(kind).parameters for kind in kinds] for kinds in groups]
    defaults = next(
        values for group in signatures if (values := [known[name].default for known in group if name in known])
    )
    words = [f"{value:g}" if isinstance(value, float) else str(value).replace("None", "none") for value in defaults]
    return f"{text} (default: {words[0]}{f', with --linear {words[1]}' if len(set(words)) > 1 else ''})"


def _kernel_name(text: str) -> str:
    return OF_LIBSVM[int(text)] if text in ("0", "1", "2", "3", "4") else text


def _add_weights(parser: argparse.ArgumentParser) -> None:
    text = "weights of the samples: an .npy file, or a text file with a number in each line"
    parser.add_argument("--weights", metavar="FILE", help=text)


def _class_weight(text: str) -> str | dict[str, float]:
    if text == "balanced":
        return text
    try:
        pairs = [item.rsplit(":", 1) for item in text.split(",")]
        return {label: float(weight) for label, weight in pairs}
    except ValueError:
        words = f"invalid choice: {text!r} (choose balanced, or a weight for each label, as in -1:2,1:0.5)"
        raise argparse.ArgumentTypeError(words) from None


def _bandwidth(text: str) -> str | float:
    if text in ("scale", "auto"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor scale nor auto") from None


def _checked_train(arguments: argparse.Namespace) -> int:
    given = vars(arguments)
    if arguments.stream and "linear" not in given:
        raise CommandError("--stream is for linear scores, since kernels need all samples at hand; add --linear.")
    if arguments.stream and (arguments.scale or arguments.cv is not None):
        raise CommandError("--stream contradicts --scale and --cv, which need all samples at hand; leave one away.")
    _refuse_idle_options_of_clients(arguments)
    refuse_idle_options(arguments, kind_of(arguments))
    if arguments.scale and given.get("kernel") == "precomputed":
        raise CommandError("--scale standardises features, and --kernel precomputed has none; leave one of them away.")
    if arguments.cv is not None and arguments.cv < 2:
        raise CommandError(f"--cv {arguments.cv} is not a number of folds; pass one from 2 on.")
    if arguments.cv is not None and arguments.model is not None:
        raise CommandError("--cv writes no model; leave MODEL or --cv away.")
    kernel = given.get("kernel", "rbf")
    for name in ("gamma", "degree", "coef0"):
        having = [other for other in KERNELS if name in parameters_of(other)]
        if name in given and kernel not in having:
            allowed = " or ".join(having)
            raise CommandError(f"{option(name)} has no effect with --kernel {kernel}, only with {allowed}.")
    if arguments.quiet and (arguments.json or "verbose" in given):
        raise CommandError("--quiet contradicts --json and --verbose; leave one of them away.")
    return train(arguments)


def _refuse_idle_options_of_clients(arguments: argparse.Namespace) -> None:
    given = vars(arguments)
    if not has_clients(arguments):
        return
    what = next((OPTIONS[name] for name in OF_CLIENTS if name in given), "mpirun")
    idle = [flag(n) for n in ("regression", "one_class", *OF_ONE_PROCESS) if given.get(n) not in (None, False)]
    if idle:
        raise CommandError(f"{idle[0]} has no effect with {what}, whose clients train classifiers; leave one away.")
    if "linear" not in given:
        raise CommandError(f"{what} is for linear scores, since kernels need all samples at hand; add --linear.")
    if arguments.stream:
        raise CommandError(f"--stream has no effect with {what}: every client reads its own part. Leave it away.")
    engine = given.get("engine", "mpi" if under_mpirun() else "in_process")
    if "scheduler" in given and engine != "dask":
        raise CommandError("--scheduler is the address of a Dask cluster; add --engine dask.")
    if under_mpirun() and engine != "mpi":
        raise CommandError(
            f"--engine {engine} contradicts mpirun, whose ranks are the clients; leave one of them away."
        )
    if arguments.format == "csv":
        raise CommandError("Clients do not read CSV files; convert the data to Parquet or LIBSVM.")


ADD: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "train": _add_train,
    "predict": _add_predict,
    "certify": _add_certify,
    "info": _add_info,
    "completion": _add_completion,
    "compile": lambda parser: parser.set_defaults(run=compile_all),
    "demo": lambda parser: parser.set_defaults(run=demo),
}
