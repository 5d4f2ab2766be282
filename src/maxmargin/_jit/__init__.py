"""The only importer of numba: lazy compilation, a disk cache that notices edits, a plain-Python fallback.

``@compiled`` marks a loop. Nothing is compiled, and numba is not imported, until the loop is first called.
``@compiled_methods`` marks a ``NamedTuple`` whose methods may be called from loops: that is how a loss, a kernel or a
matrix reaches compiled code without function pointers, class specifications or copies of the loop.

With ``NUMBA_DISABLE_JIT=1`` the same objects run as ordinary Python.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from maxmargin._jit.cache import cache_class, watched_modules
from maxmargin._jit.interrupts import held_back, look_between_steps

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)

# Sums may be reordered so that dot products vectorise; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}

_lock = threading.RLock()
_parameters: dict[str, tuple[str, ...]] = {}  # of every method name that compiled loops may call
_unregistered: list[Callable[[], None]] = []  # what numba has to be told before anything is compiled


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
        watched_modules.add(function.__module__)

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
        watched_modules.add(cls.__module__)
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
    watched_modules.add(double.__module__)
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
_unregistered += [_register_extremes, _register_prefetch, look_between_steps]


def _make_dispatcher(function: Callable[..., object], options: dict[str, object]) -> Any:
    import numba

    _register_all()
    dispatcher: Any = numba.njit(**{"nogil": True, "fastmath": FAST, "error_model": "numpy", **options})(function)
    try:
        dispatcher._cache = cache_class()(function)
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
        with _compiling, held_back:
            return function(*arguments, **options)

    return call


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
