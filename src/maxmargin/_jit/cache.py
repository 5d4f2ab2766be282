"""Compiled loops on the disk: a cache that notices edits, and that never costs more than a compilation."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PACKAGE = __name__.split(".")[0]
CHECKSUM = hashlib.sha256().digest_size  # bytes behind those of machine code in a file of the cache

# Folders of the package whose sources no loop can reach: editing them leaves the cache as it is. What else a module
# imports from us, a loop of it may call.
WITHOUT_LOOPS = ("cli", "communicators", "estimators", "lab", "loop", "models")
IMPORT = re.compile(r"^ *from (?P<target>maxmargin\.[\w.]+) import (?P<what>\([^)]*\)|[^\n]*)", re.MULTILINE)

watched_modules: set[str] = set()  # in which something was marked for compilation
_warned_of_cache = False


@functools.cache
def cache_class() -> Any:
    """Numba's function cache with another key.

    Numba itself looks only at the file of the outermost function: after an edit of a loss in another file it would go
    on running the old one. So the key has a fingerprint of every source that the loop can reach. Numba also stores the
    argument types themselves, so that one loss from a module that is gone would make the whole index unreadable. Here
    they are described in words.

    Numba numbers the files of machine code one after the other. Two processes that compile at the same time may give
    the same number to different loops, and then one of them would run the code of the other: the values of another
    loss, say. Here the name of a file follows from what is in it.

    Where the package cannot be written to, a folder of the user holds what is compiled. What was compiled beside the
    sources when they could be written to, as an image of a container was built, say, is read all the same.
    """
    from numba.core import caching

    FunctionCache: Any = caching.FunctionCache
    IndexDataCacheFile: Any = caching.IndexDataCacheFile

    class FileNamedByItsContent(IndexDataCacheFile):  # type: ignore[misc]
        def _load_index(self) -> dict[object, str]:
            try:
                return dict(super()._load_index())
            except Exception as error:  # of a damaged pickle: it is written anew
                _do_without_cache(error)
                return {}

        def _dump(self, thing: object) -> bytes:
            return _with_checksum(super()._dump(thing))  # which who reads the first object does not see

        def _load_data(self, name: str) -> object:
            raw = Path(self._data_path(name)).read_bytes()
            if hashlib.sha256(raw[:-CHECKSUM]).digest() != raw[-CHECKSUM:]:
                raise ValueError(f"{name} is damaged")  # machine code with a wrong bit would end the process
            return super()._load_data(name)

        def save(self, key: object, data: object) -> None:
            name = f"{self._index_name.removesuffix('.nbi')}.{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.nbc"
            self._save_data(name, data)
            self._save_index({**self._load_index(), key: name})

        def load(self, key: object) -> object:
            found, installed = super().load(key), getattr(self, "installed", None)
            return found if found is not None or installed is None else installed.load(key)

    class FingerprintedCache(FunctionCache):  # type: ignore[misc]
        def __init__(self, function: object) -> None:
            super().__init__(function)
            self._cache_file.__class__ = FileNamedByItsContent
            if isinstance(self._impl.locator, caching.UserWideCacheLocator):
                self._cache_file.installed = FileNamedByItsContent(*_beside_sources(self))

        def load_overload(self, sig: object, target_context: object) -> object:
            try:
                return super().load_overload(sig, target_context)
            except Exception as error:  # whatever is wrong with a cache, the loop can be compiled
                _do_without_cache(error)
                return None

        def save_overload(self, sig: object, data: object) -> None:
            try:
                super().save_overload(sig, data)
            except Exception as error:  # no room, or no permission any more
                _do_without_cache(error)

        def _index_key(self, sig: Any, codegen: object) -> object:
            _, magic, hashes = super()._index_key(sig, codegen)
            names = [_describe(argument) for argument in getattr(sig, "args", sig)]
            modules = {self._py_func.__module__, *(part for name in names for part in name.split("|")[1::2])}
            return tuple(names), magic, hashes, fingerprint(modules)

    return FingerprintedCache


def _with_checksum(raw: bytes) -> bytes:
    return raw + hashlib.sha256(raw).digest()


def _beside_sources(cache: Any) -> tuple[str, str, object]:
    """Folder, name and stamp of the file in which numba would have stored the loop if it could write there."""
    folder = Path(inspect.getfile(cache._py_func)).parent / "__pycache__"
    return str(folder), cache._impl.filename_base, cache._impl.locator.get_source_stamp()


def _do_without_cache(error: Exception) -> None:
    """Warn, once for each process, that loops have to be compiled although they may have been before."""
    global _warned_of_cache
    if not _warned_of_cache:
        _warned_of_cache = True
        warnings.warn(
            f"The cache of compiled loops cannot be used ({type(error).__name__}: {str(error)[:80]}). They are "
            f"compiled anew, which takes seconds at each start; remove the damaged files, make room for new ones, or "
            f"set NUMBA_CACHE_DIR to another folder.",
            RuntimeWarning,
            stacklevel=2,
        )


def _describe(numba_type: Any) -> str:
    """A numba type in words, with the module (between bars) and name of every ``NamedTuple`` class in it."""
    cls = getattr(numba_type, "instance_class", None)
    if cls is None:
        return str(numba_type).replace("|", "/")
    fields = ", ".join(_describe(field) for field in numba_type)
    return f"|{cls.__module__}|{cls.__qualname__}({fields})"


def fingerprint(modules: Iterable[str]) -> str:
    """Hash of the sources that loops of some modules can reach: their own, what these import from us, and so on.

    A module from outside may import others from outside: all of these that marked something count then.
    """
    names = frozenset(modules)
    foreign = any(not name.startswith(f"{PACKAGE}.") for name in names)
    ours = names | {f"{PACKAGE}._jit"}  # which says how loops are compiled and stored
    return _fingerprint(ours | watched_modules if foreign else ours)


@functools.cache
def _fingerprint(modules: frozenset[str]) -> str:
    files: set[Path] = set()
    for name in modules:
        _reach(name, files)
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(str(file.name).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _reach(module: str, files: set[Path]) -> None:
    """Add the source of a module, and what it imports from us, to the files."""
    inside = module.startswith(f"{PACKAGE}.")
    file = _source(module) if inside else Path(getattr(sys.modules.get(module), "__file__", None) or "")
    if file is None or not file.is_file() or file in files:
        return
    files.add(file)
    for match in IMPORT.finditer(file.read_text(encoding="utf-8")):
        target, what = match["target"], match["what"]
        if target.removeprefix(f"{PACKAGE}.").split(".")[0] in WITHOUT_LOOPS:
            continue
        _reach(target, files)
        for name in re.findall(r"\w+", what):  # of which some may be modules
            _reach(f"{target}.{name}", files)


def _source(module: str) -> Path | None:
    """The file of one of our modules."""
    place = Path(__file__).parent.parent.joinpath(*module.split(".")[1:])
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)
