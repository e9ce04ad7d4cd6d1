"""What a backend is told of a warm interpreter: how it is started, and what its boxes have besides. Reads our own two files.

Made by WarmPython, carried by Upkeep; backends/prepare.py puts it into the plan.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, replace
from typing import Final

from sandbox_native._native import lib
from sandbox_native.errors import PolicyError, UnsupportedError
from sandbox_native.plan import Interpreter, Op, Plan
from sandbox_native.policy import Policy, Rung

PLACE: Final = "/.warm"
"""Where a box has the bootstrap and its library."""
_LIBRARY: Final = f"{PLACE}/library.so"
_BOOTSTRAP: Final = f"{PLACE}/bootstrap.py"
_START: Final = f"{PLACE}/start.py"
# The interpreter frees the syntax tree of its main file when that has ended, which is in each clone: so that file is a short one.
_STARTER: Final = f"exec(compile(open({_BOOTSTRAP!r}, 'rb').read(), {_BOOTSTRAP!r}, 'exec'))\n".encode()
_MODULES: Final = f"{PLACE}/modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """An interpreter that imports `imports` and is then cloned."""

    python: str  # as its boxes have it
    imports: tuple[str, ...]
    allow_threads: tuple[str, ...] = ()
    allow_open: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()  # of the template alone: NAME=value
    modules: tuple[tuple[str, bytes], ...] = ()  # files of modules, sought before all others while it imports
    isolated: bool = True  # `python -I`; else it takes the seed of hashes from its environment

    @property
    def detail(self) -> str:
        """For the receipt."""
        return (
            f"{self.python}; {', '.join(self.imports) or 'nothing imported'}; clones share the address layout and the hash seed"
        )

    def lowered(self, plan: Plan) -> Plan:
        """The plan of boxes whose guests are clones."""
        words = [f"import:{name}" for name in self.imports]
        words += [f"threads:{name}" for name in self.allow_threads]
        words += [f"open:{name}" for name in self.allow_open]
        if self.modules:
            words.append(f"modules:{_MODULES}")
        flag = "-I" if self.isolated else "-s"
        started = Interpreter(argv=(self.python, flag, _START, _LIBRARY, *words), environment=self.environment)
        files = [*_files(), *((f"{_MODULES}/{name}", data) for name, data in self.modules)]
        ours = [Op(lib.SN_OP_FILE, path, mode=0o644, data=data) for path, data in files]
        return replace(plan, template=[*plan.template, *ours], interpreter=started)


def check(policy: Policy, rung: Rung) -> None:
    """What a clone cannot have."""
    if rung is Rung.LANDLOCK:
        raise UnsupportedError(
            "a warm interpreter is cloned into namespaces, and this machine has none for us",
            ("namespaces",),
            "run scripts with `Sandbox` and `python -I`",
        )
    if policy.explain:
        remedy = "find out what a script needs with Sandbox and `python -I`"
        raise PolicyError("a clone cannot be explained", field="Policy.explain", value=True, remedy=remedy)


@functools.cache
def _files() -> tuple[tuple[str, bytes], ...]:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = [(_START, _STARTER)]
    for inside, path in ((_BOOTSTRAP, "warm/bootstrap.py"), (_LIBRARY, "_warm.so")):
        with open(os.path.join(package, path), "rb") as file:
            found.append((inside, file.read()))
    return tuple(found)
