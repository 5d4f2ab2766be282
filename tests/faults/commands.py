"""Commands with mistakes, as people type them: files that are not what they should be, options that do not exist."""

import contextlib
import hashlib
import io
import warnings

import numpy as np
from formats import X, Y
from scipy import sparse

from maxmargin.cli import main
from maxmargin.io import ModelFileError, load_model, write_libsvm

LONGEST = 700  # characters of a line that says what is wrong
CODES = (0, 1, 2)
GOOD = "data.svm"
TEXTS = {
    "table.csv": "a,b,c,y\n" + "".join(f"{a:.3f},{b:.3f},{c:.3f},{y:g}\n" for (a, b, c), y in zip(X, Y, strict=True)),
    "names.csv": "a,b,species\n" + "1,2,setosa\n2,1,virginica\n" * 9,
    "bare.csv": "1,2,3,1\n2,3,4,-1\n" * 9,
    "other columns.csv": "a,b,d,y\n1,2,3,1\n",
    "fewer.csv": "a,c,y\n1,2,1\n",
    "ragged.csv": "a,b,y\n1,2,1\n1,2\n",
    "empty cells.csv": "a,b,y\n1,,1\n2,3,-1\n",
    "quotes.csv": 'a,b,y\n"1\n2",3,1\n',
    "open quote.csv": 'a,b,y\n"1,3,1\n1,2,1\n',
    "only a header.csv": "a,b,y\n",
    "twice.csv": "a,a,y\n1,2,1\n2,3,-1\n",
    "one column.csv": "y\n1\n-1\n",
    "semicolons.csv": "a;b;y\n1,5;2;1\n2,5;3;-1\n",
    "crlf.svm": "+1 1:1 2:2\r\n-1 1:2\r\n",
    "bom.svm": "\ufeff+1 1:1 2:2\n-1 1:2\n",
    "cr.svm": "+1 1:1 2:2\r-1 1:2\r",
    "comments.svm": "# nothing\n\n# but comments\n",
    "some comments.svm": "# a file\n+1 1:1 # first\n\n-1 2:1 3:4\n",
    "labels.svm": "1\n-1\n1\n",
    "empty.svm": "",
    "blank.svm": "\n\n \n",
    "nan.svm": "1 1:nan\n-1 1:2\n",
    "inf.svm": "1 1:inf\n-1 1:2\n",
    "nan label.svm": "nan 1:1\n-1 1:2\n",
    "huge.svm": "1 1:1e308 2:1e308\n-1 1:-1e308 2:5\n1 1:1e308\n",
    "beyond.svm": "1 1:1e309\n-1 1:2\n",
    "huge index.svm": "1 2147483647:1\n-1 1:2\n",
    "larger index.svm": "1 2147483648:1\n-1 1:2\n",
    "endless index.svm": f"1 {'9' * 30}:1\n-1 1:2\n",
    "zero.svm": "1 0:1 1:2\n-1 0:2\n",
    "negative.svm": "1 -1:1\n-1 1:2\n",
    "descending.svm": "1 2:1 1:2\n-1 1:2\n",
    "duplicates.svm": "1 1:1 1:2\n-1 1:2\n",
    "qid.svm": "1 qid:1 1:1\n-1 qid:1 1:2\n",
    "several labels.svm": "1,2 1:1\n2 1:2\n",
    "words.svm": "yes 1:1\nno 1:2\n",
    "one class.svm": "1 1:1\n1 1:2\n",
    "one row.svm": "1 1:1\n",
    "same rows.svm": "1 1:1\n-1 1:1\n",
    "zeros.svm": "1 1:0\n-1 2:0\n",
    "classes.svm": "".join(f"{k} {k + 1}:1\n" for k in range(30)),
    "quantities.svm": "".join(f"{k / 7} 1:{k} 2:{k * k}\n" for k in range(20)),
    "long line.svm": "1 " + " ".join(f"{k}:1" for k in range(1, 20000)) + "\n-1 1:1\n",
    "long token.svm": "1 1:" + "9" * 100_000 + "\n-1 1:1\n",
    "text.txt": "Dear all,\nthis is not data.\n",
    "nothing": "",
    "weights.txt": "1\n" * 40,
    "fewer weights.txt": "1\n2\n",
    "negative weights.txt": "-1\n" * 40,
    "nan weights.txt": "nan\n" * 40,
    "no weights.txt": "0\n" * 40,
    "word weights.txt": "one\n" * 40,
    "d\u00e4t\u00e4 \u6570\u636e.svm": "1 1:1\n-1 1:2\n",
    "-dash.svm": "1 1:1\n-1 1:2\n",
    "new\nline.svm": "1 1:1\n-1 1:2\n",
    "%s {0}.svm": "1 1:1\n-1 1:x\n",
}
OPTIONS = {
    "--linear": None,
    "--regression": None,
    "--one-class": None,
    "--probability": None,
    "--scale": None,
    "--stream": None,
    "--zero-based": None,
    "--quiet": None,
    "--verbose": None,
    "--json": None,
    "--scores": None,
    "--proba": None,
    "--help": None,
    "--version": None,
    "--nonsense": None,
    "--nu": ("0.3", "0", "1", "2", "nan", "x"),
    "--epsilon": ("0.1", "0", "-1", "nan"),
    "--weights": ("weights.txt", "fewer weights.txt", "negative weights.txt", "nan weights.txt", "no weights.txt",
                  "word weights.txt", "missing", "folder", "rows.npy", "nothing", "binary", GOOD),
    "--cv": ("3", "0", "1", "1000", "2.5", "-3"),
    "--loss": ("hinge", "squared_hinge", "logistic"),
    "--kernel": ("rbf", "rfb", "linear", "poly", "sigmoid", "laplacian", "precomputed", "0", "4", "7", ""),
    "--C": ("1", "0", "-1", "nan", "inf", "1e300", "1e-300", "1,5", ""),
    "--gamma": ("scale", "auto", "0", "-1", "1e300", "nan", "0.5"),
    "--degree": ("2", "0", "-1", "1000000", "2.5"),
    "--coef0": ("0", "-1", "inf"),
    "--class-weight": ("balanced", "1:2,-1:1", "5:1", "1", "1:x", "1:-1", "1:0", ":", "1:nan"),
    "--intercept": ("free", "penalised", "none", "some"),
    "--multi-class": ("ovo", "ovr", "all"),
    "--solver": ("auto", "newton", "smo", "nonsense", "saddle", "pegasos", "interior_point", ""),
    "--tol": ("1e-3", "0", "-1", "nan", "inf", "1e-300", "x"),
    "--max-iter": ("10", "-1", "0", "1e3", "-5"),
    "--max-time": ("0", "-1", "nan", "1e-9", "inf"),
    "--cache-size": ("1", "0", "-1", "nan", "1e12"),
    "--seed": ("1", "-1", "x", "99999999999999999999"),
    "--features": ("3", "2", "0", "-1", "3000000000", "100000"),
    "--target": ("y", "a", "0", "-1", "missing", "species", ""),
    "--format": ("auto", "libsvm", "csv", "arff"),
    "--clients": ("2", "0", "-1", "1000"),
    "--engine": ("in_process", "mpi?"),
    "--checkpoint": ("fit", "missing/fit", "folder"),
    "--checkpoint-every": ("0", "-1", "nan", "10"),
    "--round-timeout": ("10", "0", "-1"),
    "--on-failure": ("raise", "restart", "ignore"),
    "--topology": ("gather", "star"),
}  # fmt: skip
OF_ALL = ("--json", "--help", "--nonsense", "--format", "--target", "--zero-based", "--stream")
OF_COMMAND = {
    "train": [name for name in OPTIONS if name not in ("--scores", "--proba")],
    "predict": [*OF_ALL, "--scores", "--proba"],
    "certify": [*OF_ALL, "--tol", "--weights"],
    "info": ["--json", "--help"],
}


def make_files(folder):
    """The files that commands are given, most of them wrong. Sets: the folder's content."""
    for name, text in TEXTS.items():
        with contextlib.suppress(OSError):  # names that some systems do not have
            (folder / name).write_bytes(text.encode())
    write_libsvm(folder / GOOD, X, Y)
    write_libsvm(folder / "data.svm.gz", X, Y)
    whole = (folder / "data.svm.gz").read_bytes()
    (folder / "cut.svm.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "latin1.csv").write_bytes("a,gr\u00f6\u00dfe\n1,1\n2,-1\n".encode("latin-1"))
    (folder / "utf16.csv").write_bytes("a,y\n1,1\n2,-1\n".encode("utf-16"))
    (folder / "binary").write_bytes(bytes(range(256)) * 4)
    (folder / "zip.mm").write_bytes(b"PK\x05\x06" + bytes(18))
    (folder / "folder").mkdir(exist_ok=True)
    np.save(folder / "rows.npy", X)
    np.save(folder / "targets.npy", Y)
    sparse.save_npz(folder / "rows.npz", sparse.csr_matrix(X))
    for name, words in {  # none is where train writes by default
        "model.mm": [GOOD],
        "linear.mm": [GOOD, "--linear"],
        "scaled.mm": ["table.csv", "--linear", "--scale"],
        "likely.mm": ["names.csv", "--probability"],
        "svr.mm": ["quantities.svm", "--regression"],
        "one.mm": [GOOD, "--one-class"],
    }.items():
        ours = [words[0], name, *words[1:]]
        code, _, text = run(["train", *(str(folder / word) if "." in word else word for word in ours)])
        assert code == 0, text
    return sorted(path.name for path in folder.iterdir())


def run(words):
    """Run a command in this process: exit code and both outputs; warnings of Python become lines as in a process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default")
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def mistaken_command(rng, names):
    """Words of a command; most of them have one or two mistakes."""
    models = [name for name in names if name.endswith(".mm")]
    data = [name for name in names if not name.endswith(".mm")]
    command = rng.choice(["train", "train", "train", "predict", "predict", "certify", "info", "explain"])
    source = rng.choice(
        [GOOD, "table.csv", rng.choice(data), rng.choice(data), rng.choice([*names, "missing", "-", ""])]
    )
    words = [] if command == "info" else [source]
    if command == "train":
        words += rng.choice([[], ["out.mm"], ["out.mm"], ["folder"], ["missing/out.mm"], [rng.choice(names)]])
    else:
        words.append(rng.choice(["model.mm", "linear.mm", rng.choice(models), rng.choice([*names, "missing"])]))
        if command == "predict":
            words += rng.choice([[], [], ["labels"], ["folder"], ["missing/labels"], [words[0]]])
    known = OF_COMMAND.get(command, list(OPTIONS))
    for name in rng.sample(known, min(len(known), rng.choice([0, 1, 1, 2, 3]))):
        values = OPTIONS[name]
        words += [name] if values is None else [name, rng.choice(values)]
    if rng.random() < 0.05:
        rng.shuffle(words)
    if rng.random() < 0.03 and words:
        words.pop()
    return [command, *words, *(["--max-time", "3"] if command == "train" and "--max-time" not in words else [])]


def _prints(folder, names):
    return {name: hashlib.sha256((folder / name).read_bytes()).digest() for name in names if (folder / name).is_file()}


def wrong_with_command(words, folder, names):
    """What a command did that it must not: in the folder, where only new files may appear."""
    before = _prints(folder, names)
    code, out, err = run(words)
    lines = err.splitlines()
    if code not in CODES or "Traceback" in out + err:
        yield f"exit code {code}: {err[-300:]}"
    errors = [line for line in lines if line.startswith("maxmargin: error: ")]
    if (code == 2) != (len(errors) == 1):
        yield f"exit code {code} with {len(errors)} errors: {err[-300:]}"
    for line in lines:
        known = ("maxmargin: error: ", "maxmargin: warning: ", "Accuracy: ", "Mean squared error: ")
        if not line.startswith(known) and "--verbose" not in words:
            yield f"a line on standard error: {line[:300]!r}"
        if len(line) > LONGEST or (line.startswith("maxmargin: error") and not line.endswith(".")):
            yield f"no sentence: {line[:300]!r}"
    if code == 2 and out:
        yield f"standard output of a command that failed: {out[:100]!r}"
    if words[0] == "train" and code in (0, 1) and not {"--help", "--version", "--cv"} & set(words):
        yield from _wrong_with_model(folder, words, names)
    after = _prints(folder, names)
    target = words[2] if len(words) > 2 else ""
    for name in names:
        allowed = words[0] in ("train", "predict") and target == name and code in (0, 1)
        if before.get(name) != after.get(name) and not allowed:
            yield f"{name} was changed"
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink()
            if path.name.endswith((".tmp", ".new")) or path.name.startswith(("tmp", ".")):
                yield f"{path.name} was left behind"


def _wrong_with_model(folder, words, names):
    fresh = [path for path in folder.glob("*.mm") if path.name not in names]
    for path in fresh:
        try:
            load_model(path)
        except ModelFileError as error:
            yield f"a model that cannot be loaded: {error}"
