"""A compiled program as a value: what a run of it executes, and what its box shows. Host process.

Made by compiling.py, run by way of attempt.py (submissions) and helpers.py (the package's own). Boxes show the directory of all
programs of a store, so that one kept Sandbox serves every program of a language; a guest can read its own only, since it cannot
list that directory nor guess a name in it (store.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Unpack

from sandbox_native.judge.language import Language
from sandbox_native.judge.store import Lease
from sandbox_native.limits import Limits
from sandbox_native.policy import Policy, PolicyFields
from sandbox_native.result import Result

PROGRAMS: Final = "/programs"
"""Where boxes show the programs of a store."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A program that can be run, as long as this object lives: the store keeps its files meanwhile. It can be pickled, and leases
    the files anew where it arrives (`StoreError` when they are gone by then: compile again).

    - `name`: of the program in the store: equal programs have equal names, and nobody can guess one.
    - `store`: the host directory that is shown as /programs.
    - `entry`: the main file or class, where the language has one.
    """

    language: Language
    name: str
    store: str
    entry: str
    lease: Lease = field(repr=False, compare=False)

    @property
    def directory(self) -> str:
        """Where its box shows its files."""
        return f"{PROGRAMS}/{self.name}"

    @property
    def host_directory(self) -> str:
        """Where its files are on the host; read-only."""
        return f"{self.store}/{self.name}"

    @property
    def env(self) -> dict[str, str]:
        """For `Sandbox.run(env=…)`."""
        return dict(self.language.environment)

    def argv(self, limits: Limits, arguments: Iterable[str] = ()) -> tuple[str, ...]:
        """What to execute. `limits`: those of the problem; some run-times have to be told of them."""
        return (*self.language.run_command(self.directory, self.entry, limits), *arguments)

    def limits(self, limits: Limits) -> Limits:
        """Those of the run, from those of the problem: see `Language.limits`."""
        return self.language.limits(limits)

    def policy(self, **given: Unpack[PolicyFields]) -> Policy:
        """What its box shows: equal for all programs of a language and store, so that they can share a Sandbox.

        `given` adds fields, as of `Policy.strict`. Beneath the store are plain files only, so nobody looks for sockets there.
        """
        given = {"host_sockets": "show", **given}
        given["readable"] = ((self.store, PROGRAMS), *given.get("readable", ()))
        return self.language.policy(**given)

    def lacked_memory(self, result: Result) -> bool:
        """Whether a run failed since its run-time was refused memory (`std::bad_alloc`, MemoryError …), by its last words."""
        return not result.ok and self.language.lacked_memory(result.stderr)
