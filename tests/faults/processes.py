"""Processes that are stopped, killed, or denied room: the model is the old one or the new one, and never half a one."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from damage import damaged
from formats import X, Y

from maxmargin import LinearSVC
from maxmargin.io import load_model, save_model, write_libsvm

FOR_GOOD = 200.0  # seconds for a whole command, on a busy machine
OF_MPI = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMP_NUM_THREADS"), "1")
FITS = {  # short ones, and one that takes long enough to be stopped anywhere
    "kernel": ["--tol", "1e-6"],
    "linear": ["--linear", "--solver", "newton", "--tol", "1e-9"],
    "probability": ["--probability"],
    "long": ["--C", "1e6", "--gamma", "10", "--tol", "1e-15", "--solver", "smo_simplified", "--max-time", "6"],
    "stream": ["--linear", "--stream"],
    "clients": ["--linear", "--clients", "2", "--checkpoint", "fit", "--checkpoint-every", "0"],
}


def prepare(folder):
    """Data, and a model that was there before. Sets: the folder's content."""
    rng = np.random.default_rng(1)
    rows = np.vstack([X, rng.normal(size=(400, X.shape[1]))])
    labels = np.concatenate([Y, np.sign(rng.normal(size=400))])
    write_libsvm(folder / "noise.svm", rows, labels)
    write_libsvm(folder / "data.svm", X, Y)
    save_model(LinearSVC(C=0.125).fit(X, Y), folder / "old.mm")


def start(words, folder, **options):
    """Start ``python -m maxmargin``, which hears Ctrl-C also if this process does not."""
    before = options.pop("before", lambda: None)

    def prepare_child():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        before()

    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [sys.executable, "-m", "maxmargin", *words]
    return subprocess.Popen(command, cwd=folder, preexec_fn=prepare_child, **streams)


def stopped(rng, folder):
    """A signal at a random moment."""
    name = rng.choice(sorted(FITS))
    number = rng.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    seconds = rng.choice([rng.uniform(0.1, 1.0), rng.uniform(0.5, 3.0), rng.uniform(1.0, 8.0)])
    twice = rng.random() < 0.2
    model = _copy_of_old(folder)
    with start(["train", "noise.svm", "out.mm", *FITS[name]], folder) as child:
        time.sleep(seconds)
        child.send_signal(number)
        if twice:
            time.sleep(rng.uniform(0.0, 0.3))
            child.send_signal(number)
        _, err, late = _end(child)
    said = f"{name}, {number.name}{' twice' if twice else ''} after {seconds:.2f} s"
    found = [] if late is None else [f"no answer for {late:.0f} s"]
    expected = {signal.SIGINT: (0, 1, 130)}.get(number, (0, 1, -number))
    if child.returncode not in expected or b"Traceback" in err:
        found.append(f"exit code {child.returncode}: {err[-500:].decode()}")
    found += _wrong_with(model, number == signal.SIGKILL)
    if name == "clients":
        found += _resumed(folder)
    for path in folder.glob("fit.*"):
        path.unlink()
    return said, found


def denied(rng, folder):
    """No room for files, streams that are closed or full, no memory."""
    kind = rng.choice(["size", "size", "memory", "closed", "full", "pipe", "files"])
    words = rng.choice([["train", "data.svm", "out.mm", *FITS[rng.choice(["kernel", "linear", "stream", "clients"])]],
                        ["predict", "data.svm", "old.mm", "labels"], ["predict", "data.svm", "old.mm"],
                        ["certify", "data.svm", "old.mm"], ["info", "old.mm"], ["--help"]])  # fmt: skip
    model, codes, options = _copy_of_old(folder), (0, 1, 2), {}
    # With 2**28 bytes, importing scikit-learn never ends: the BLAS of scipy goes on asking for memory.
    limit = {"size": rng.choice([0, 1, 100, 1000, 3000, 10_000]), "memory": rng.choice([2, 3, 5, 8]) * 2**28}
    if kind == "size":
        options["before"] = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit[kind], limit[kind]))
    elif kind == "memory":
        options["before"] = lambda: resource.setrlimit(resource.RLIMIT_AS, (limit[kind], limit[kind]))
        codes = (0, 1, 2, -6, -11, 127)  # of C libraries that die while they are loaded
    elif kind == "files":
        options["before"] = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (rng.randint(8, 20),) * 2)
    elif kind == "full":
        stream = rng.choice(["stdout", "stderr"])
        options[stream] = Path("/dev/full").open("w")  # noqa: SIM115
    elif kind == "closed":
        some = rng.sample([0, 1, 2], rng.randint(1, 3))
        options["before"] = lambda: [os.close(number) for number in some]
    with start(words, folder, **options) as child:
        if kind == "pipe":
            child.stdout.close()
            child.stdout = None
        _, err, late = _end(child)
    for stream in options.values():
        if hasattr(stream, "close"):
            stream.close()
    said = f"{kind} {limit.get(kind, '')}: {' '.join(words)}"
    found = [] if late is None else [f"no end for {late:.0f} s"]
    if child.returncode not in codes or (b"Traceback" in (err or b"") and kind not in ("memory", "files")):
        found.append(f"exit code {child.returncode}: {(err or b'')[-500:].decode()}")
    for path in [*folder.glob("labels"), *folder.glob("fit.*")]:
        path.unlink()
    return said, [*found, *_wrong_with(model, killed=kind == "memory")]


def raced(rng, folder):
    """Several processes that write the same model."""
    model = _copy_of_old(folder)
    children = [
        start(["train", "data.svm", "out.mm", *FITS[rng.choice(["kernel", "linear"])]], folder) for _ in range(3)
    ]
    ends = [_end(child) for child in children]
    found = [f"exit code {child.returncode}: {err[-300:].decode()}"
             for child, (_, err, _) in zip(children, ends, strict=True) if child.returncode != 0]  # fmt: skip
    return "three processes, one model", [*found, *_wrong_with(model)]


def forgotten(rng, folder):
    """A cache of compiled loops of which some files are damaged or gone."""
    whole, cache = folder.parent / "cache", folder.parent / "damaged"
    words = ["train", "data.svm", "out.mm", "--linear", "--solver", "dual_coordinate", "--max-time", "60"]
    if not whole.exists():
        with start(words, folder, env=os.environ | {"NUMBA_CACHE_DIR": str(whole)}) as child:
            _end(child)
    shutil.copytree(whole, cache)
    try:
        files = sorted(path for path in cache.rglob("*") if path.is_file())
        for path in rng.sample(files, rng.randint(1, 5)):
            if rng.random() < 0.2:
                path.unlink()
            else:
                path.write_bytes(damaged(rng, path.read_bytes())[0])
        model = _copy_of_old(folder)
        with start(words, folder, env=os.environ | {"NUMBA_CACHE_DIR": str(cache)}) as child:
            _, err, late = _end(child)
    finally:
        shutil.rmtree(cache)
    found = [] if late is None else [f"no end for {late:.0f} s"]
    if child.returncode != 0 or b"Traceback" in err:
        found.append(f"exit code {child.returncode}: {err[-500:].decode()}")
    return "a damaged cache", [*found, *_wrong_with(model)]


def lost(rng, folder):
    """A rank of MPI that is killed; the others say so, or start again."""
    model, again = _copy_of_old(folder), rng.random() < 0.6
    words = ["train", "noise.svm", "out.mm", "--linear", "--engine", "mpi", "--clients", "2", "--round-timeout", "30"]
    words += ["--on-failure", "restart", "--checkpoint", "fit", "--checkpoint-every", "0"] if again else []
    with start(words, folder, env=os.environ | OF_MPI) as child:
        time.sleep(rng.uniform(0.5, 8.0))
        ranks = [
            pid for pid in _descendants(child.pid) if b"maxmargin" in _words_of(pid) and b"mpirun" not in _words_of(pid)
        ]
        killed = bool(ranks) and rng.random() < 0.9
        if killed:
            os.kill(rng.choice(ranks), signal.SIGKILL)
        _, err, late = _end(child)
    found = [] if late is None else [f"no end for {late:.0f} s"]
    if child.returncode not in ((0, 2, 137) if killed else (0,)) or b"Traceback" in err:
        found.append(f"exit code {child.returncode}: {err[-500:].decode()}")
    for path in folder.glob("fit.*"):
        path.unlink()
    return f"{'a' if killed else 'no'} rank lost, {'restart' if again else 'raise'}", [
        *found,
        *_wrong_with(model, True),
    ]


def _descendants(pid):
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            yield child
            yield from _descendants(child)


def _words_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _end(child):
    """Both outputs, and how late the end came if it did not come in time."""
    try:
        out, err = child.communicate(timeout=FOR_GOOD)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
        return out, err, FOR_GOOD
    return out, err, None


def _copy_of_old(folder):
    path = folder / "out.mm"
    path.write_bytes((folder / "old.mm").read_bytes())
    return path


def _wrong_with(model, killed=False):
    """The file is the old model or a new one; nothing else was left, unless nobody could clear it away."""
    try:
        restored = load_model(model)
        if not np.isfinite(np.asarray(restored.decision_function(X))).all():
            yield "a model without finite scores"
    except Exception as error:
        yield f"neither the old nor a new model: {error}"
    known = {"noise.svm", "data.svm", "old.mm", "out.mm", "labels"}
    for path in model.parent.iterdir():
        if path.name not in known and not path.name.startswith("fit."):
            if not killed:
                yield f"{path.name} was left behind"
            path.unlink()


def _resumed(folder):
    """What goes on from the checkpoints ends with the truth."""
    with start(["train", "noise.svm", "out.mm", *FITS["clients"], "--quiet"], folder) as child:
        _, err, late = _end(child)
    if late is not None or child.returncode not in (0, 2) or b"Traceback" in err:
        yield f"the resumed run: exit code {child.returncode}: {err[-300:].decode()}"
    if child.returncode == 0:
        with start(["certify", "noise.svm", "out.mm"], folder) as judge:
            out, err, _ = _end(judge)
        if judge.returncode != 0:
            yield f"a false certificate after a resumed run: {out.decode()} {err.decode()}"


KINDS = (stopped, stopped, stopped, denied, denied, denied, raced, forgotten, lost)
