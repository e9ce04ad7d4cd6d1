"""What the interpreter of a WarmPython runs: it imports what it is told to, and is then cloned. Here a clone becomes a guest.

Runs in the box, with any CPython from 3.8 on and none of this package. Arguments: the shared library, then `import:NAME`,
`threads:NAME` and `open:NAME` (an import that may leave threads running, or files open), `modules:DIRECTORY`. Descriptors: 3 the
control socket, 4 the plan.
"""

from __future__ import annotations

import sys

del sys.modules["__future__"]  # no guest asked for it
TYPE_CHECKING = False  # the typing module would be there for every guest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any

CONTROL, PLAN, OLDEST = 3, 4, (3, 8)
REHEARSALS = 16  # until code is specialized, free memory sorted and caches are filled, in memory that the clones share
EINVAL = 22


class _Refused(Exception):
    """The import cannot be served; what it says is for the host."""


class _Begin(BaseException):
    """Raised in a guest, with which the bootstrap ends: the interpreter hands it to the hook that runs the script."""


def _names(kind: str, words: list[str]) -> list[str]:
    return [word[len(kind) + 1 :] for word in words if word.startswith(kind + ":")]


# ---- imports ----


def _threads() -> set[str]:
    import os

    return set(os.listdir("/proc/self/task"))


def _opened() -> dict[int, str]:
    """What is open beyond the standard streams and our own."""
    import os

    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink("/proc/self/fd/" + name)
        except FileNotFoundError:  # the listing's own
            pass
    return {number: text for number, text in found.items() if number > PLAN}


def _new_threads(before: set[str]) -> str:
    more = len(_threads() - before)
    if not more:
        return ""
    threading = sys.modules.get("threading")
    names = [thread.name for thread in threading.enumerate()[1:]] if threading else []
    return ", ".join(names) or f"{more} of native code"


def _import(name: str, may_thread: bool, may_open: bool) -> None:
    threads, opened = _threads(), _opened()
    try:
        __import__(name)
    except BaseException as error:
        raise _Refused(f"{name}: {type(error).__name__}: {error}") from None
    left = _new_threads(threads)
    if left and not may_thread:
        raise _Refused(f"{name}: leaves threads running ({left}), which no clone would have; see allow_threads")
    more = sorted(text for number, text in _opened().items() if opened.get(number) != text)
    if more and not may_open:
        raise _Refused(f"{name}: leaves {', '.join(more)} open, which no clone would have; see allow_open")


def _import_all(words: list[str]) -> None:
    allowed = set(_names("threads", words)), set(_names("open", words))
    first = _names("modules", words)
    sys.path[:0] = first
    for name in _names("import", words):
        _import(name, name in allowed[0], name in allowed[1])
    sys.path[:] = [path for path in sys.path if path not in first]


# ---- the template ----


def _load(path: str) -> Any:
    """The library, and its functions; they keep the interpreter's lock."""
    ctypes = _unseen("ctypes")
    library = ctypes.PyDLL(path)
    library.sn_warm_argument.restype = library.sn_warm_variable.restype = ctypes.c_char_p
    library.sn_warm_script.argtypes = [ctypes.py_object] * 3
    library.sn_warm_leave_by.argtypes = [ctypes.py_object] * 2
    library.sn_warm_exchange.argtypes = [ctypes.py_object] * 2 + [ctypes.c_size_t] * 2
    library.sn_warm_exchange.restype = library.sn_warm_leave_by.restype = None
    return library


def _check_interpreter() -> None:
    if sys.implementation.name != "cpython" or sys.version_info[:2] < OLDEST:
        raise _Refused(f"{sys.executable}: not CPython from 3.8 on")


def _unseen(name: str) -> Any:
    """A module that only we need: a guest does not see that it was imported."""
    known = set(sys.modules)
    module = __import__(name)
    for name in set(sys.modules) - known:
        del sys.modules[name]
    return module


class _Guest:
    """The interpreter from the moment on in which it is a guest, to its end."""

    def __init__(self) -> None:
        _unseen("atexit").register(self.leave)  # the first to register is the last to be called

    def prepare(self, library: Any) -> None:
        """All that can be done before a guest is asked for."""
        self._library, self._last = library, next(reversed(sys.modules))
        self._gc, self._io, self._os, self._time = map(_unseen, ("gc", "io", "os", "time"))
        self._streams = [(name, getattr(sys, name)) for name in ("stdin", "stdout", "stderr")]
        self._annotated = "__annotations__" in sys.modules["__main__"].__dict__
        self._zone = self._os.environ.get("TZ")
        for _ in range(REHEARSALS):
            self.rehearse()
        self._gc.collect()
        self._gc.freeze()

    # ---- the start ----

    def rehearse(self) -> None:
        """Before there is a request: what does not depend on it, and once all that does, so that the memory which it needs is the
        clone's own by then. The template does it too."""
        self._renew_modules(sys.modules)
        variables = self._os.environb.copy().items()
        self._take([b"/dev/null"], [name + b"=" + value for name, value in variables])
        exec(compile("pass", "/dev/null", "exec"), sys.modules["__main__"].__dict__)
        self._main("/dev/null")
        sys.stdout.write("\n")
        sys.stdout.flush()

    def become(self) -> None:
        library = self._library
        self._take(self._strings(library.sn_warm_argument), self._strings(library.sn_warm_variable))
        if "logging" in sys.modules:
            logging: Any = sys.modules["logging"]
            logging._startTime = self._time.time_ns() if isinstance(logging._startTime, int) else self._time.time()
        sys.modules["__main__"] = self._main(sys.argv[0])
        sys.excepthook = library.sn_warm_script

    def _take(self, arguments: list[bytes], variables: Iterable[bytes]) -> None:
        self._take_environment(arguments[0], variables)
        sys.argv = [self._os.fsdecode(word) for word in arguments]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv = [sys.executable, "-I" if sys.flags.isolated else "-s", *sys.argv]
        self._open_streams()

    @staticmethod
    def _strings(function: Callable[[int], bytes | None]) -> list[bytes]:
        found, at = [], 0
        text = function(0)
        while text is not None:
            found.append(text)
            at += 1
            text = function(at)
        return found

    def _take_environment(self, script: bytes, variables: Iterable[bytes]) -> None:
        """One entry may have no name: the script's text, where the host could not place it as a file."""
        environment = self._os.environb
        environment.clear()
        for entry in variables:
            name, _, value = entry.partition(b"=")
            if name:
                environment[name] = value
            else:
                with open(script, "wb") as file:
                    file.write(value)
        if self._os.environ.get("TZ") != self._zone:
            self._time.tzset()

    def _open_streams(self) -> None:
        """As the interpreter does at its start, with the encodings that it found then."""
        io = self._io
        for number, (name, old) in enumerate(self._streams):
            raw = io.open(number, "wb" if number else "rb", -1, None, None, None, False)
            raw.raw.name = f"<{name}>"
            buffered = old is None or old.line_buffering
            lines = bool(number) and (buffered or raw.raw.isatty())
            new = io.TextIOWrapper(raw, old.encoding, old.errors, "\n", lines)
            new.mode = "w" if number else "r"
            setattr(sys, name, new)
            setattr(sys, f"__{name}__", new)

    def _renew_modules(self, modules: dict[str, Any]) -> None:
        """What modules keep of the process that imported them, beside what their own hooks after a fork renew."""
        if "numpy.random" in modules:
            modules["numpy.random"].seed()
        if "threading" in modules:
            modules["threading"].main_thread()._set_native_id()
        if "multiprocessing.process" in modules:
            process = modules["multiprocessing.process"]
            process.current_process().authkey = self._os.urandom(32)

    def _main(self, path: str) -> ModuleType:
        main = type(sys)("__main__")
        names = main.__dict__
        if self._annotated:
            names["__annotations__"] = {}
        names["__builtins__"] = sys.modules["builtins"]
        external = sys.modules["_frozen_importlib_external"]
        names["__loader__"] = external.SourceFileLoader("__main__", path)
        names["__file__"] = path
        names["__cached__"] = None
        return main

    # ---- the end ----

    def leave(self) -> None:
        """After all other functions of atexit. Where a stream cannot be flushed, or the status is not known, the interpreter ends
        as it does without us."""
        if self._library.sn_warm_exit_code() < 0:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            ours: list[Any] = [sys.__stdin__, sys.__stdout__, sys.__stderr__]
            self._finished = {id(part) for one in ours for part in (one, one.buffer, one.buffer.raw)}
        except Exception:  # they are the guest's, and may be anything by now
            return
        self._library.sn_warm_leave_by(self._set_aside, self._finish_objects)

    def _set_aside(self) -> None:
        """Modules that the template imported are not cleared, but for what a guest put into them: see _finish_objects. They are
        not even looked at, since each would be copied for it: the dictionary changes its content with one of the guest's own."""
        modules, other = sys.modules, {}
        for name in reversed(modules):  # the guest's came last
            if name == self._last:
                break
            other[name] = modules[name]
        for name in ("__main__", "builtins", "sys"):
            if name in modules:
                other[name] = modules[name]
        own = list(other)
        self._library.sn_warm_exchange(modules, other, object.__basicsize__, dict.__basicsize__)
        for name in own:
            del other[name]
        self._aside = other

    def _finish_objects(self) -> list[Callable[[], object]]:
        """How the guest's objects that are still alive, in a module of the template's, are finalized. What sys leads to comes
        when sys has been cleared: this is called before and after that."""
        generator = type(_ for _ in ())
        left = self._gc.get_objects()  # what is frozen is the template's own
        found = [thing for thing in left if type(thing) is generator or hasattr(type(thing), "__del__")]
        found = [thing for thing in found if id(thing) not in self._finished]
        reached = self._reached(left) if found and sys.__stdout__ is not None else ()
        found = [thing for thing in found if id(thing) not in reached]
        self._finished.update(map(id, found))
        return [getattr(thing, "__del__", None) or thing.close for thing in found]

    def _reached(self, things: list[object]) -> set[int]:
        young, reached = {id(thing) for thing in things}, set()
        stack = [vars(sys)]
        while stack:
            for thing in self._gc.get_referents(stack.pop()):
                if id(thing) in young and id(thing) not in reached:
                    reached.add(id(thing))
                    stack.append(thing)
        return reached


def _serve(words: list[str]) -> int:
    if not sys.flags.isolated:
        del sys.path[0]  # the bootstrap's own directory
    guest = _Guest()
    try:
        _check_interpreter()
        _import_all(words[1:])
    except _Refused as refused:
        _load(words[0]).sn_warm_refuse(CONTROL, EINVAL, str(refused).encode("utf-8", "backslashreplace"))
        return 1
    library = _load(words[0])
    guest.prepare(library)
    served = library.sn_warm_serve(CONTROL, PLAN)
    if served == 0:
        guest.rehearse()
        library.sn_warm_wait()
        guest.become()
        raise _Begin
    return int(served)


if __name__ == "__main__":
    import os

    os._exit(_serve(sys.argv[1:]))
