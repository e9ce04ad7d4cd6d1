"""WarmPython: a Sandbox whose runs are Python scripts in clones of one interpreter. Public; Linux.

What a run gives and keeps is Sandbox's own; the hook into the backend is spec.Warm, and what happens in the interpreter is in
bootstrap.py.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from sandbox_native import paths
from sandbox_native.arguments import checked_policy
from sandbox_native.backends.base import Stats, Upkeep
from sandbox_native.budget import Budget
from sandbox_native.environment import Environment
from sandbox_native.errors import PolicyError, SetupError
from sandbox_native.limits import Limits
from sandbox_native.policy import Policy
from sandbox_native.process import Process
from sandbox_native.receipt import WARM
from sandbox_native.request import Argument, Encoder
from sandbox_native.result import Layer, Result
from sandbox_native.rules import SYSTEM
from sandbox_native.sandbox import Sandbox
from sandbox_native.warm.script import CloneEncoder, Code, Script
from sandbox_native.warm.spec import Warm

if TYPE_CHECKING:
    from sandbox_native.options import RunOptions
    from sandbox_native.policy import PolicyFields

# Pools of numerical libraries; each reads its own when it is imported.
_ONE_THREAD: Final = dict.fromkeys(
    (
        *("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "GOTO_NUM_THREADS"),
        *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS"),
    ),
    "1",
)
_COLD: Final = "cold start: the template had ended"
_CLONE_LOST: Final = "cold start: the clone was lost in the middle of a first try"


class WarmPython:
    """An interpreter that has imported `imports` stands in a box of its own; each run is a clone of it in a fresh one. Safe in
    threads; a context manager.

    - `imports`: modules, which are trusted: they run outside of any guest, under no limit of a run and no filter, though in the
      policy's root and without a network. What they print is lost.
    - `policy`, `limits`, `cgroup`, `prepared`, `idle_seconds`, `pinned`, `budget`: as of a Sandbox. The policy needs namespaces.
    - `python`: the interpreter, CPython from 3.8 on, by default the caller's own. What it needs beside the system's directories
      is shown as `Policy.strict(python=…)` shows it.
    - `env`: what the interpreter has besides while it imports. The pools of numerical libraries have one thread unless it says
      otherwise (OPENBLAS_NUM_THREADS and kin).
    - `modules`: files of modules of the caller's own, by relative name (`tool.py`, `tools/__init__.py`): `imports` finds them
      first, and a script only what was imported of them. Trusted as `imports` are.
    - `allow_threads`, `allow_open`: imports that may leave threads running or files open; no clone has either.

    Making one starts the interpreter. `SetupError` with stage "warm" names an import that failed, or that leaves threads,
    sockets or files; beyond that the errors of a Sandbox, and `PolicyError` for what is no interpreter. When the interpreter
    has died, the run that finds out is started cold, with `python -I`, and its receipt says so; the next one starts another.
    Where it may have changed something of the host already (`workspace`, `Policy.writable`) or read from a descriptor that
    is its stdin, it is not run twice: that is a `SetupError`.

    With `Policy.deterministic` the interpreter has the fixed seed of hashes: it is started without `-I` then, which would
    ignore it, in an environment that is ours all the same.

    A script runs as `python -I script.py` would, but for what the README lists under "What a warm start gives up".
    """

    def __init__(
        self,
        imports: Iterable[str] = (),
        policy: Policy | None = None,
        limits: Limits | None = None,
        *,
        python: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        modules: Mapping[str, bytes] | None = None,
        allow_threads: Iterable[str] = (),
        allow_open: Iterable[str] = (),
        cgroup: str | os.PathLike[str] | None = None,
        prepared: int = 0,
        idle_seconds: float = 60.0,
        pinned: bool = False,
        budget: Budget | None = None,
    ) -> None:
        shown, self._python = with_interpreter(checked_policy(policy), python)
        names = _names("imports", imports)
        spec = Warm(
            python=self._python,
            imports=names,
            allow_threads=_among(names, "allow_threads", allow_threads),
            allow_open=_among(names, "allow_open", allow_open),
            environment=_entries(shown, env),
            modules=tuple(paths.files(modules, "modules").items()) if modules else (),
            isolated=not shown.deterministic,
        )
        self._lock = threading.Lock()
        self._cold: Sandbox | None = None
        self._cold_runs = 0
        self._closed = False
        self._clones = _Clones(
            spec, shown, limits, cgroup=cgroup, prepared=prepared, idle_seconds=idle_seconds, pinned=pinned, budget=budget
        )

    @property
    def policy(self) -> Policy:
        """With what the interpreter needs."""
        return self._clones.policy

    @property
    def limits(self) -> Limits:
        return self._clones.limits

    @property
    def cold_runs(self) -> int:
        """Runs that were started cold, since the interpreter had died."""
        return self._cold_runs

    def stats(self) -> Stats:
        """How clones were kept ready since the interpreter was started."""
        return self._clones.stats()

    def run(self, code: Code, args: Sequence[Argument] = (), **options: Unpack[RunOptions]) -> Result:
        """Runs a script in a clone and waits for its end.

        - `code`: its text, which the box has as /workspace/main.py, or a pathlib.Path of the host, whose name it keeps. Where
          `workspace` shows a host directory it is in /tmp.
        - `args`: what follows in sys.argv.
        - `options`: as of `Sandbox.run`: stdin, limits, env, secrets, cwd, workspace, files, collect, merge_stderr, commit.

        Errors as of `Sandbox.run`.
        """
        script, given = Script.of(code).placed(options)
        try:
            return self._clones.run([script, *args], **given)
        except SetupError as error:
            begun = error.item == "init"
            if error.stage != "lost" or self._closed or not self._leaves_no_trace(given, begun):
                raise
            why = _CLONE_LOST if begun else _COLD
        return self._run_cold(why, [self._python, "-s" if self.policy.deterministic else "-I", script, *args], given)

    def spawn(self, code: Code, args: Sequence[Argument] = (), **options: Unpack[RunOptions]) -> Process:
        """Starts a script as `run` does and returns at once; see `Sandbox.spawn`. Nothing is started cold."""
        script, given = Script.of(code).placed(options)
        return self._clones.spawn([script, *args], **given)

    async def run_async(self, code: Code, args: Sequence[Argument] = (), **options: Unpack[RunOptions]) -> Result:
        """As `run`, in an event loop; see `Sandbox.run_async`. Nothing is started cold."""
        script, given = Script.of(code).placed(options)
        return await self._clones.run_async([script, *args], **given)

    def _leaves_no_trace(self, options: Mapping[str, Any], begun: bool) -> bool:
        """Whether nobody can tell a run that was lost and its repetition from one run."""
        touched = begun and (options.get("workspace") is not None or self.policy.writable)
        return not touched and isinstance(options.get("stdin"), (bytes, str, os.PathLike, type(None)))

    def _run_cold(self, why: str, argv: list[Argument], options: dict[str, Any]) -> Result:
        with self._lock:
            if self._closed:
                raise PolicyError("is closed", field="WarmPython", value=None, remedy="make another one")
            if self._cold is None:
                self._cold = self._clones.cold()
            cold = self._cold
            self._cold_runs += 1
        result = cold.run(argv, **options)
        layer = Layer(name="warm", mechanism=WARM, held=False, detail=why)
        return replace(result, enforcement=replace(result.enforcement, layers=(*result.enforcement.layers, layer)))

    def close(self) -> None:
        """Ends every run (each is `cancelled`), and the interpreter. Harmless when repeated."""
        self._closed = True
        self._clones.close()
        with self._lock:
            if self._cold is not None:
                self._cold.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Clones(Sandbox):
    """argv[0] is the script, as the box has it."""

    def __init__(
        self,
        spec: Warm,
        policy: Policy,
        limits: Limits | None,
        *,
        cgroup: str | os.PathLike[str] | None,
        prepared: int,
        idle_seconds: float,
        pinned: bool,
        budget: Budget | None,
    ) -> None:
        self._spec = spec
        self.cold = partial(Sandbox, policy, limits, pinned=pinned, budget=budget)
        super().__init__(
            policy, limits, cgroup=cgroup, prepared=prepared, idle_seconds=idle_seconds, pinned=pinned, budget=budget
        )

    def _make_encoder(self, environment: Environment) -> Encoder:
        return CloneEncoder(environment, None, os.environ)

    def _kept(self, upkeep: Upkeep) -> Upkeep:
        return replace(upkeep, warm=self._spec)


def with_interpreter(policy: Policy, python: str | os.PathLike[str] | None) -> tuple[Policy, str]:
    """The policy with what the interpreter (None: the caller's own) needs, and its path."""
    from sandbox_native.closure import located
    from sandbox_native.installation import is_python
    from sandbox_native.minimal import python_fields

    python = sys.executable if python is None else python
    path = located("python", python)
    if not is_python(os.path.realpath(path)):
        remedy = "give a Python interpreter, such as sys.executable"
        raise PolicyError("not a Python interpreter", field="python", value=path, remedy=remedy)
    if policy.system and all(any(paths.contains(shown, name) for shown in SYSTEM) for name in (path, os.path.realpath(path))):
        return policy, path
    given: PolicyFields = {
        "readable": policy.readable,
        "writable": policy.writable,
        "symlinks": policy.symlinks,
        "path": policy.path,
    }
    fields: dict[str, Any] = dict(python_fields(path, given))  # Policy brings them into their form
    return replace(policy, **{name: fields[name] for name in ("readable", "symlinks", "path")}), path


def _names(field: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, (str, bytes)):
        raise PolicyError("one string", field=field, value=names, remedy="give a list of names of modules")
    found = tuple(names)
    for at, name in enumerate(found):
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            remedy = "give one as in an import statement"
            raise PolicyError("not the name of a module", field=f"{field}[{at}]", value=name, remedy=remedy)
    return found


def _among(imports: tuple[str, ...], field: str, names: Iterable[str]) -> tuple[str, ...]:
    found = _names(field, names)
    for at, name in enumerate(found):
        if name not in imports:
            raise PolicyError("is not imported", field=f"{field}[{at}]", value=name, remedy="name it in imports too")
    return found


def _entries(policy: Policy, env: Mapping[str, str] | None) -> tuple[str, ...]:
    environment = Environment(
        path=policy.path, inherit=policy.inherit, inherit_unsafe=policy.inherit_unsafe, deterministic=policy.deterministic
    )
    given = environment.of({**_ONE_THREAD, **(env or {})}, environment.inherited(os.environ))
    return tuple(f"{name}={value}" for name, value in given.items())
