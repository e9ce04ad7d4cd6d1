"""What Sandbox and run are given, checked: each function gives the value as it is used, or raises PolicyError. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, TypeVar

from sandbox_native.backends.base import Upkeep
from sandbox_native.budget import Budget
from sandbox_native.environment import Environment
from sandbox_native.errors import PolicyError
from sandbox_native.limits import Limits
from sandbox_native.options import RunOptions
from sandbox_native.policy import Policy, Writes

_Value = TypeVar("_Value", Policy, Limits, Budget)
_STRICT: Final = Policy.strict()
_MOST: Final = 1024  # boxes
_MOST_IDLE_SECONDS: Final = 86_400


def upkeep(prepared: int, idle_seconds: float, pinned: bool) -> Upkeep:
    if isinstance(prepared, bool) or not isinstance(prepared, int) or not 0 <= prepared <= _MOST:
        raise PolicyError("not a number of boxes", field="prepared", value=prepared, remedy=f"give 0 to {_MOST}")
    if not isinstance(idle_seconds, (int, float)) or not 1 <= idle_seconds <= _MOST_IDLE_SECONDS:
        raise PolicyError(
            "not a time", field="idle_seconds", value=idle_seconds, remedy=f"give 1 to {_MOST_IDLE_SECONDS} seconds"
        )
    return Upkeep(prepared=prepared, idle_seconds=float(idle_seconds), pinned=bool(pinned))


def places(wanted: int | None) -> int:
    if wanted is None:
        return os.cpu_count() or 1
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 1 <= wanted <= _MOST:
        raise PolicyError("not a number of runs", field="concurrency", value=wanted, remedy=f"give 1 to {_MOST}")
    return wanted


def environment(policy: Policy) -> Environment:
    """What the policy makes of a guest's environment."""
    return Environment(
        path=policy.path, inherit=policy.inherit, inherit_unsafe=policy.inherit_unsafe, deterministic=policy.deterministic
    )


def checked_policy(policy: object) -> Policy:
    """The policy itself, or the default one; PolicyError for anything else."""
    if isinstance(policy, (str, os.PathLike)):
        remedy = "give Policy.strict(), Policy.light() or Policy.from_toml(path)"
        raise PolicyError("not a Policy", field="policy", value=policy, remedy=remedy)
    return checked("policy", policy, Policy, _STRICT)


def commit(wanted: bool, policy: Policy) -> bool:
    """PolicyError where a run is to keep changes that this policy does not keep apart."""
    if not wanted and policy.writes is not Writes.COMMIT:
        reason = "the policy's writes go straight to the host's directories: nothing is left that could be committed later"
        remedy = "give the Sandbox policy=Policy.strict(writes=Writes.COMMIT), or leave commit out"
        raise PolicyError(reason, field="commit", value=wanted, remedy=remedy)
    return bool(wanted)


def refuse_unknown(options: Mapping[str, object]) -> None:
    """TypeError, as Python's own, for an option that `run` and its like do not have."""
    for name, value in options.items():
        meant = f"did you mean limits=Limits(wall_seconds={value!r})?" if name == "timeout" else ""
        meant = f"did you mean limits=Limits({name}={value!r})?" if name in Limits.__dataclass_fields__ else meant
        raise TypeError(f"a run has no option {name!r}: {meant or 'its options are ' + ', '.join(RunOptions.__annotations__)}")


def checked(field: str, value: object, kind: type[_Value], default: _Value) -> _Value:
    if value is None:
        return default
    if not isinstance(value, kind):
        raise PolicyError(f"not a {kind.__name__}", field=field, value=value, remedy=f"give a {kind.__name__} or None")
    return value
