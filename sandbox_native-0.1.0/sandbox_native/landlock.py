"""What Landlock is told: which rights are handled at which ABI, and the rules that follow from what a box shows. Pure.

Called by planning.py. In a box with namespaces it is a second layer below the mounts: what is shown can be read and executed,
and only what is writable can be written, whatever becomes of a mount. Read-only places beneath a writable root are the mounts'
affair: rights add up along a path, so a rule cannot take away what one above it gives.

Deletion.DENY is the same rules without the rights to remove and to move, in the writable roots and the workspace. The box's own
scratch places (/tmp, the home, /dev/shm) go on taking them: nothing of the host is there, and most programs remove their
temporary files. Nothing can be moved out of a root into them, since they are other file systems.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from sandbox_native import paths
from sandbox_native.environment import HOME, WORKSPACE
from sandbox_native.plan import PathRule, Ruleset
from sandbox_native.policy import Deletion, Policy
from sandbox_native.rules import Access
from sandbox_native.shown import HostTree, Shown

RIGHTS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "execute": (0, 1),
        "write_file": (1, 1),
        "read_file": (2, 1),
        "read_dir": (3, 1),
        "remove_dir": (4, 1),
        "remove_file": (5, 1),
        "make_char": (6, 1),
        "make_dir": (7, 1),
        "make_reg": (8, 1),
        "make_sock": (9, 1),
        "make_fifo": (10, 1),
        "make_block": (11, 1),
        "make_sym": (12, 1),
        "refer": (13, 2),
        "truncate": (14, 3),
        "ioctl_dev": (15, 5),
    }
)
"""Name -> bit, and the ABI that it comes with. Handled without a rule that permits it, it is refused."""
SCOPES: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({"abstract_unix_socket": (0, 6), "signal": (1, 6)})
"""The same for what is cut off from everybody outside."""

LAYER_ABI: Final = 2
"""From here on it can be a layer: ABI 1 refuses every move between directories, whatever its rules say."""
DELETION_ABI: Final = 1
"""From here on deletion can be denied."""

_READ: Final = ("execute", "read_file", "read_dir")
_CHANGE: Final = ("write_file", "truncate", "make_dir", "make_reg", "make_sock", "make_fifo", "make_sym", "ioctl_dev")
_REMOVE: Final = ("remove_dir", "remove_file", "refer")
DEVICE: Final = ("read_file", "read_dir", "write_file", "truncate", "ioctl_dev")
"""Of /dev and its nodes; truncate, since a shell opens /dev/null with it."""
_SCRATCH: Final = ("/tmp", HOME, "/dev/shm", "/dev/mqueue")
"""Queues too: a rule for their directory is one for mq_open, which names no path."""


def ruleset(policy: Policy, tree: HostTree, abi: int) -> Ruleset | None:
    """For a box with namespaces. None where nothing is asked for (`light` with deletion allowed), or the ABI is too low."""
    if policy.preset == "strict" and abi >= LAYER_ABI:
        return _layer(policy, tree, abi)
    if policy.deletion is Deletion.DENY and abi >= DELETION_ABI:
        return _no_deletion(tree, abi)
    return None


def change(policy: Policy) -> tuple[str, ...]:
    """What a guest may do in a writable root and in its workspace."""
    return (*_READ, *_CHANGE) if policy.deletion is Deletion.DENY else (*_READ, *_CHANGE, *_REMOVE)


def bits(names: Iterable[str], abi: int) -> int:
    """Those of them that the ABI has."""
    return sum(1 << bit for bit, since in (RIGHTS[name] for name in names) if since <= abi)


def scopes(abi: int) -> int:
    return sum(1 << bit for bit, since in SCOPES.values() if since <= abi)


def _layer(policy: Policy, tree: HostTree, abi: int) -> Ruleset:
    roots, allowed = _writable(tree), change(policy)
    free = set(_free(roots))
    rules = [
        PathRule(path="/", access=bits(_READ, abi)),
        PathRule(path="/dev", access=bits(DEVICE, abi)),
        PathRule(path="/dev/null", access=bits(DEVICE, abi)),  # the host's own node: a guest's stdin is on no path of the box
        PathRule(path="/proc", access=bits((*_READ, "write_file", "truncate"), abi)),
    ]
    rules += (
        PathRule(path=path, access=bits((*_READ, *_CHANGE, *_REMOVE) if path in free else allowed, abi)) for path in _SCRATCH
    )
    rules += (PathRule(path=path, access=bits(allowed, abi)) for path in (WORKSPACE, *(root.inside for root in roots)))
    return Ruleset(handled=bits(RIGHTS, abi), scoped=scopes(abi), workspace=bits(allowed, abi), rules=rules)


def _no_deletion(tree: HostTree, abi: int) -> Ruleset:
    handled = bits(_REMOVE, abi)
    rules = [PathRule(path=path, access=handled) for path in _free(_writable(tree))]
    return Ruleset(handled=handled, rules=rules)


def _writable(tree: HostTree) -> list[Shown]:
    return [shown for shown in tree.shown if shown.kind == "bind" and shown.access is Access.WRITABLE]


def _free(roots: Iterable[Shown]) -> list[str]:
    """The scratch places in which no root lies: a root would be given what they are given."""
    return [path for path in _SCRATCH if not any(paths.contains(path, root.inside) for root in roots)]
