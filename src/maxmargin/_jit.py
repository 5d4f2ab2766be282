"""The only importer of numba: lazy compilation, a disk cache that notices edits, a plain-Python fallback.

``@compiled`` marks a loop. Nothing is compiled, and numba is not imported, until the loop is first called.
``@compiled_methods`` marks a ``NamedTuple`` whose methods may be called from loops: that is how a loss, a kernel or a
matrix reaches compiled code without function pointers, class specifications or copies of the loop.

With ``NUMBA_DISABLE_JIT=1`` the same objects run as ordinary Python.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)

# Sums may be reordered so that dot products vectorise; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}

# Folders of the package whose sources no loop can reach: editing them leaves the cache as it is. What else a module
# imports from us, a loop of it may call.
WITHOUT_LOOPS = ("cli", "communicators", "estimators", "lab", "loop", "models")
IMPORT = re.compile(r"^ *from (?P<target>maxmargin\.[\w.]+) import (?P<what>\([^)]*\)|[^\n]*)", re.MULTILINE)

CHECKSUM = hashlib.sha256().digest_size  # bytes before those of machine code in a file of the cache

_lock = threading.RLock()
_warned_of_cache = False
_parameters: dict[str, tuple[str, ...]] = {}  # of every method name that compiled loops may call
_unregistered: list[Callable[[], None]] = []  # what numba has to be told before anything is compiled
_watched_modules: set[str] = set()


PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")  # whether loops run as plain Python


class _Meter:
    """The seconds in which at least one thread of this process is inside.

    Numba has one lock: while one thread compiles, others that need machine code wait, and they too are inside. Loops
    that are compiled because others call them are counted with these.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._since = 0.0
        self._total = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._since = time.perf_counter()
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._total += time.perf_counter() - self._since

    def after_fork(self) -> None:
        """In the child of a fork nobody is inside, and nobody holds the lock."""
        self._lock, self._inside = threading.Lock(), 0

    def inside(self) -> float:
        """How many there were so far."""
        with self._lock:
            return self._total + (time.perf_counter() - self._since if self._inside else 0.0)

    def outside(self) -> float:
        """A clock that stands still while somebody is inside."""
        with self._lock:
            return (self._since if self._inside else time.perf_counter()) - self._total


_compiling = _Meter()


def _after_fork() -> None:
    """Renew the locks that another thread may have held when this process was forked: nobody would give them back."""
    global _lock
    _lock = threading.RLock()
    _compiling.after_fork()
    compiler_lock = sys.modules.get("numba.core.compiler_lock")
    with contextlib.suppress(AttributeError):  # numba keeps its lock elsewhere now
        compiler_lock.global_compiler_lock._lock = threading.RLock()  # type: ignore[union-attr]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

seconds_compiling = _compiling.inside  # that this process has spent in compiling or loading loops, in any thread
seconds_working = _compiling.outside  # a clock for time limits: it stands still while any thread does that


class Compiled:
    """A loop that becomes machine code at its first call."""

    def __init__(self, function: Callable[..., object], **options: object) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._options = options
        self._dispatcher: Any = None
        _watched_modules.add(function.__module__)

    @property
    def dispatcher(self) -> Any:
        """Numba's dispatcher for this loop, made once."""
        if self._dispatcher is None:
            with _compiling, _lock:
                if self._dispatcher is None:
                    self._dispatcher = _make_dispatcher(self.function, self._options)
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        # Numba asks a global for this attribute to type it, so one loop can call another.
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: object) -> Any:
        if PLAIN:
            return self.function(*arguments)
        if _unregistered:
            _register_all()
        return (self._dispatcher or self.dispatcher)(*arguments)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a loop for compilation at its first call."""
    return cast("Callable[P, R]", Compiled(function))


def compiled_in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a loop that makes no arrays.

    Numba then counts no references to the arrays that the loop is given. Where a method of a matrix is called for every
    row, counting takes longer than a short row itself.
    """
    return cast("Callable[P, R]", Compiled(function, _nrt=False))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a short loop that is copied into its callers: an array is seven arguments, and a call may cost more."""
    return cast("Callable[P, R]", Compiled(function, forceinline=True))


def compiled_exactly(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a loop whose operations keep the order in which they are written.

    Rounding errors that are computed as ``(a + b) - a - b`` would be nothing in any other loop.
    """
    return cast("Callable[P, R]", Compiled(function, fastmath=False))


def inlined_exactly(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a few operations that keep their order and are copied into their callers, whose loops become vector code."""
    return cast("Callable[P, R]", Compiled(function, fastmath=False, forceinline=True))


def compiled_methods(cls: Class) -> Class:
    """Let compiled loops call the public methods of a ``NamedTuple`` class.

    Numba ties a method's name to one list of parameters, whatever the class, so a name must mean the same everywhere:
    ``loss.value(z, y)`` but ``penalty.cost(w, j)``.
    """
    if not getattr(cls, "_fields", ()):
        raise TypeError(f"{cls.__name__} must be a NamedTuple with at least one field to be used in compiled loops.")
    methods = {name: m for name, m in vars(cls).items() if not name.startswith("_") and inspect.isfunction(m)}
    with _lock:
        for name, method in methods.items():
            parameters = tuple(inspect.signature(method).parameters)
            if name not in _parameters:
                _parameters[name] = parameters
                _unregistered.append(functools.partial(_register_method, name, parameters))
            if parameters != _parameters[name]:
                raise TypeError(
                    f"{cls.__name__}.{name} takes ({', '.join(parameters)}), but compiled methods called {name!r} "
                    f"take ({', '.join(_parameters[name])}) everywhere: rename the method or its parameters."
                )
        hidden = [name for name in getattr(cls, "_fields", ()) if name in _parameters]
        if hidden:
            raise TypeError(
                f"{cls.__name__} has a field {hidden[0]!r}, but compiled loops take that name for a method: rename it."
            )
        _watched_modules.add(cls.__module__)
    return cls


def larger(x: Any, y: Any) -> Any:
    """``max`` of two numbers of one type, neither of them NaN. Unlike ``max``, loops over it become vector code."""
    return x if x > y else y


def smaller(x: Any, y: Any) -> Any:
    """``min`` of two numbers of one type, neither of them NaN. Unlike ``min``, loops over it become vector code."""
    return x if x < y else y


def by_precision(double: Callable[[float], float], single: Callable[..., Any]) -> Callable[[float], float]:
    """A function of one number ``x`` with two bodies: ``single`` if it is a float32, ``double`` otherwise."""

    @functools.wraps(double)
    def choose(x: float) -> float:
        return (single if getattr(x, "dtype", None) == "float32" else double)(x)

    def register() -> None:
        from numba import extending, types

        def body(x: object) -> object:
            chosen: Any = single if x == types.float32 else double
            return chosen.function

        extending.overload(choose, strict=False, jit_options=_OVERLOAD_OPTIONS)(body)

    _unregistered.append(register)
    _watched_modules.add(double.__module__)
    return choose


def _register_extremes() -> None:
    """Give ``larger`` and ``smaller`` the instructions that LLVM knows how to vectorise."""
    from llvmlite import ir
    from numba import extending, types

    def vectorise(function: object, name: str) -> None:
        @extending.intrinsic  # type: ignore[untyped-decorator]
        def extreme(context: Any, x: Any, y: Any) -> Any:
            if x != y or not isinstance(x, types.Float):
                return None

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> object:
                number = context.get_value_type(signature.return_type)
                function_type = ir.FunctionType(number, [number, number])
                instruction = builder.module.declare_intrinsic(name, [number], function_type)
                return builder.call(instruction, arguments, fastmath=["nnan", "nsz", "reassoc"])

            return x(x, y), generate

        def body(x: object, y: object) -> object:
            return lambda x, y: extreme(x, y)

        extending.overload(function, strict=False)(body)

    vectorise(larger, "llvm.maxnum")
    vectorise(smaller, "llvm.minnum")


def prefetch(array: Any, i: Any) -> None:
    """Bring the entry ``i`` of a contiguous array nearer to the processor, for a loop that will need it soon."""


def _register_prefetch() -> None:
    """Give ``prefetch`` the instruction that it stands for; as plain Python it does nothing."""
    from llvmlite import ir
    from numba import extending, types

    @extending.intrinsic  # type: ignore[untyped-decorator]
    def touch(context: Any, array: Any, i: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> object:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            function_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            instruction = builder.module.declare_intrinsic("llvm.prefetch.p0", (), function_type)
            address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
            builder.call(instruction, [address, number(0), number(3), number(1)])  # to read, keep, data
            return context.get_dummy_value()

        return types.void(array, types.intp), generate

    def body(array: object, i: object) -> object:
        return lambda array, i: touch(array, i)

    extending.overload(prefetch, strict=False)(body)


_OVERLOAD_OPTIONS: dict[str, object] = {"fastmath": FAST, "error_model": "numpy"}
_unregistered += [_register_extremes, _register_prefetch]


def _make_dispatcher(function: Callable[..., object], options: dict[str, object]) -> Any:
    import numba

    _register_all()
    dispatcher: Any = numba.njit(**{"nogil": True, "fastmath": FAST, "error_model": "numpy", **options})(function)
    try:
        dispatcher._cache = _cache_class()(function)
        dispatcher._can_cache = True
    except (AttributeError, TypeError):  # numba's private cache interface has changed
        dispatcher.enable_caching()
    except RuntimeError:  # no source file on disk: nothing to cache under
        pass
    dispatcher.compile = _metered(dispatcher.compile)
    return dispatcher


def _metered(function: Callable[..., object]) -> Callable[..., object]:
    """Numba's dispatchers call their ``compile`` for types that they have not met, and that looks on the disk first."""

    @functools.wraps(function)
    def call(*arguments: object, **options: object) -> Any:
        with _compiling:
            return function(*arguments, **options)

    return call


@functools.cache
def _cache_class() -> Any:
    """Numba's function cache with another key.

    Numba itself looks only at the file of the outermost function: after an edit of a loss in another file it would go
    on running the old one. So the key has a fingerprint of every source that the loop can reach. Numba also stores the
    argument types themselves, so that one loss from a module that is gone would make the whole index unreadable. Here
    they are described in words.

    Numba numbers the files of machine code one after the other. Two processes that compile at the same time may give
    the same number to different loops, and then one of them would run the code of the other: the values of another
    loss, say. Here the name of a file follows from what is in it.
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

        def _save_data(self, name: str, data: object) -> None:
            raw = self._dump(data)
            with self._open_for_write(self._data_path(name)) as file:
                file.write(hashlib.sha256(raw).digest() + raw)

        def _load_data(self, name: str) -> object:
            raw = Path(self._data_path(name)).read_bytes()
            if hashlib.sha256(raw[CHECKSUM:]).digest() != raw[:CHECKSUM]:
                raise ValueError(f"{name} is damaged")  # machine code with a wrong bit would end the process
            return pickle.loads(raw[CHECKSUM:])

        def save(self, key: object, data: object) -> None:
            name = f"{self._index_name.removesuffix('.nbi')}.{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.nbc"
            self._save_data(name, data)
            self._save_index({**self._load_index(), key: name})

    class FingerprintedCache(FunctionCache):  # type: ignore[misc]
        def __init__(self, function: object) -> None:
            super().__init__(function)
            self._cache_file.__class__ = FileNamedByItsContent

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
    foreign = any(not name.startswith(f"{__package__}.") for name in names)
    return _fingerprint(names | _watched_modules if foreign else names)


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
    inside = module.startswith(f"{__package__}.")
    file = _source(module) if inside else Path(getattr(sys.modules.get(module), "__file__", None) or "")
    if file is None or not file.is_file() or file in files:
        return
    files.add(file)
    for match in IMPORT.finditer(file.read_text(encoding="utf-8")):
        target, what = match["target"], match["what"]
        if target.removeprefix(f"{__package__}.").split(".")[0] in WITHOUT_LOOPS:
            continue
        _reach(target, files)
        for name in re.findall(r"\w+", what):  # of which some may be modules
            _reach(f"{target}.{name}", files)


def _source(module: str) -> Path | None:
    """The file of one of our modules."""
    place = Path(__file__).parent.joinpath(*module.split(".")[1:])
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def _register_all() -> None:
    """Tell numba about the methods and functions that were marked since the last call."""
    if not _unregistered:
        return
    with _compiling, _lock:
        while _unregistered:
            _unregistered[-1]()
            _unregistered.pop()


def _register_method(name: str, parameters: tuple[str, ...]) -> None:
    from numba import extending, types

    overload_method: Any = extending.overload_method

    def choose(self: Any, *_: object) -> object:
        return vars(self.instance_class).get(name)

    choose.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in parameters]
    )
    for kind in (types.NamedTuple, types.NamedUniTuple):
        # Not strict: numba would compare annotations too. That the parameters agree was checked when they were marked.
        overload_method(kind, name, strict=False, jit_options=_OVERLOAD_OPTIONS)(choose)
