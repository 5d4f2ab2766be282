"""Damaged model files: promises are bounded before memory is asked for, numbers are numbers, errors are short."""

import io
import json
import random
import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from sklearn.datasets import load_iris

from maxmargin import SVC, Lasso, LinearSVC
from maxmargin.io import ModelFileError, load_model, save_model
from maxmargin.models.format import DOCUMENT, LONGEST_SENTENCE

X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """The members of three model files, by name."""
    folder = tmp_path_factory.mktemp("models")
    found = {}
    models = {"SVC": SVC().fit(X, Y), "LinearSVC": LinearSVC().fit(X, Y), "Lasso": Lasso(0.01).fit(X, X[:, 0])}
    for name, model in models.items():
        save_model(model, folder / name)
        with zipfile.ZipFile(folder / name) as archive:
            found[name] = {entry: archive.read(entry) for entry in archive.namelist()}
    return found


def packed(tmp_path, content, **options):
    path = tmp_path / "model.mm"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        for name, raw in content.items():
            archive.writestr(name, raw)
    return path


def npy(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=(1, 0))
    return stream.getvalue()


@pytest.mark.parametrize("model", ["SVC", "LinearSVC", "Lasso"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_array_of_a_model_may_hold_what_is_no_number(members, tmp_path, model, value):
    """Such models loaded in silence, and predicted NaN."""
    floats = [
        name for name, raw in members[model].items() if name != DOCUMENT and np.load(io.BytesIO(raw)).dtype.kind == "f"
    ]
    assert len(floats) >= 2
    for name in floats:
        array = np.load(io.BytesIO(members[model][name])).copy()
        if array.size == 0:
            continue
        array.flat[array.size // 2] = value
        with pytest.raises(ModelFileError, match=r"finite|is not an array|is not"):
            load_model(packed(tmp_path, members[model] | {name: npy(array)}))


def test_a_document_cannot_promise_gigabytes(members, tmp_path):
    """236 kB unpacked to 12 GB: JSON of empty lists takes twenty times its length when it is parsed."""
    raw = members["SVC"][DOCUMENT]
    lists = raw[:-1] + b', "more": [' + b"[]," * 20_000_000 + b"[]]}"
    path = packed(tmp_path, members["SVC"] | {DOCUMENT: lists})
    assert path.stat().st_size < 250_000
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="the most allowed for its packed size; save the model again"):
        load_model(path)
    assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    tracemalloc.stop()


def test_arrays_cannot_promise_gigabytes(members, tmp_path):
    zeros = npy(np.zeros(2**24 * 3))  # 400 MB in 400 kB
    path = packed(tmp_path, members["LinearSVC"] | {"zeros.npy": zeros})
    del zeros
    tracemalloc.start()
    with pytest.raises(ModelFileError, match=r"unpacks to 40\d{7} bytes, more than .*; pass max_bytes if you trust it"):
        load_model(path)
    assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    tracemalloc.stop()
    with pytest.raises(ModelFileError, match="belongs to no attribute"):
        load_model(path, max_bytes=2**30)


LONG = "x" * 5000


@pytest.mark.parametrize("place", ["class", "parameter", "value", "dtype", "tag", "member"])
def test_messages_quote_little_of_a_file(members, tmp_path, place):
    document, content = json.loads(members["SVC"][DOCUMENT]), dict(members["SVC"])
    if place == "class":
        document["class"] = LONG
    elif place == "parameter":
        document["parameters"][LONG] = 1
    elif place == "value":
        document["parameters"]["kernel"] = LONG
    elif place == "dtype":
        document["fitted"]["intercept_"]["dtype"] = LONG
    elif place == "tag":
        document["fitted"]["intercept_"] = {LONG: 1}
    else:
        content[LONG] = b"1"
    with pytest.raises(ModelFileError) as caught:
        load_model(packed(tmp_path, content | {DOCUMENT: json.dumps(document).encode()}))
    assert len(caught.value.sentence) <= LONGEST_SENTENCE
    assert LONG[:500] not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("model", ["SVC", "Lasso"])
def test_random_damage_is_refused_or_harmless(members, tmp_path, model):
    """A file with flipped bits, gaps or repetitions is refused in a sentence, or its model has finite answers."""
    rng = random.Random(3)
    path = packed(tmp_path, members[model])
    whole = path.read_bytes()
    for _ in range(60):
        content = bytearray(whole)
        place = rng.randrange(len(content))
        kind = rng.random()
        if kind < 0.5:
            content[place] ^= 1 << rng.randrange(8)
        elif kind < 0.75:
            del content[place : place + rng.randint(1, 300)]
        else:
            content[place:place] = content[max(0, place - 100) : place]
        path.write_bytes(bytes(content))
        try:
            restored = load_model(path)
        except ModelFileError as error:
            sentence = error.sentence
            assert sentence[0].isupper(), sentence
            assert sentence.endswith("."), sentence
        else:
            assert np.isfinite(np.asarray(restored.predict(X), dtype=float)).all()


def test_numbers_of_a_document_that_were_changed_are_refused_or_harmless(members, tmp_path):
    """As above, with archives whose checksums are right: somebody meant to do harm."""
    rng = random.Random(4)
    text = members["SVC"][DOCUMENT].decode()
    places = [k for k, letter in enumerate(text) if letter.isdigit()]
    for _ in range(60):
        place = rng.choice(places)
        changed = text[:place] + rng.choice(["", "9", "-1", "1e999", "null", "[]", "0.5"]) + text[place + 1 :]
        with suppress(ModelFileError):
            restored = load_model(packed(tmp_path, members["SVC"] | {DOCUMENT: changed.encode()}, compresslevel=1))
            assert set(restored.predict(X)) <= set(Y)
