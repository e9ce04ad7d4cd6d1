"""What the fields of a policy may not hold together: paths that clash with the box or each other, choices that exclude each
other. Pure; called when a Policy is made, with every field checked by itself. What a look at the disk tells is hosttree.py's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from sandbox_native.choices import ReadPolicy, Writes
from sandbox_native.environment import HOME, WORKSPACE, check_inherit
from sandbox_native.errors import PolicyError
from sandbox_native.paths import Pair, contains
from sandbox_native.rules import OWN, SYSTEM, Access, Rule, deciding, declared

if TYPE_CHECKING:
    from sandbox_native.policy import Policy

# What a box has at these places cannot be covered, and beneath the first ones nothing can be put either.
_OURS_ALTOGETHER: Final = ("/proc", "/dev", "/.empty", "/.roots", "/.changes")
_OURS: Final = (*_OURS_ALTOGETHER, "/etc/passwd", "/etc/group", "/tmp", HOME, WORKSPACE)
_SHARED_MEMORY: Final = "/dev/shm"


def check_together(policy: Policy) -> None:
    """PolicyError for the first pair of fields that cannot both hold."""
    _check_choices(policy)
    for name, pairs in (("readable", policy.readable), ("writable", policy.writable)):
        for at, (host, inside) in enumerate(pairs):
            field = f"Policy.{name}[{at}]"
            _check_host(field, host, writable=name == "writable")
            _check_inside(policy, field, inside, host)
    _check_apart(policy)
    rules = declared(policy)
    _check_protected(policy, rules)
    _check_hidden(policy, rules)
    _check_links(policy, rules)
    _check_path(policy, rules)
    check_inherit(policy.inherit, unsafe=policy.inherit_unsafe, deterministic=policy.deterministic)


def _refuse(field: str, value: object, reason: str, remedy: str) -> None:
    raise PolicyError(reason, field=field, value=value, remedy=remedy)


# ---- choices ----


def _check_choices(policy: Policy) -> None:
    if policy.read is ReadPolicy.HOST and not policy.system:
        _refuse("Policy.system", False, "Policy.read=ReadPolicy.HOST shows the system's programs", "leave one of the two out")
    if policy.read is ReadPolicy.HOST and policy.symlinks:
        reason = "Policy.read=ReadPolicy.HOST shows the host's own names"
        _refuse("Policy.symlinks", policy.symlinks, reason, "leave one of the two out")
    if policy.changes == "disk" and policy.writes is not Writes.COMMIT:
        reason = "with Writes.DIRECT no changes are kept apart"
        _refuse("Policy.changes", policy.changes, reason, "give writes=Writes.COMMIT too")
    if policy.workspace_owner == "chown" and policy.writes is Writes.COMMIT:
        reason = "with Writes.COMMIT the workspace stays as it is until the run has ended"
        _refuse("Policy.workspace_owner", "chown", reason, "give 'idmap', or writes=Writes.DIRECT")
    if policy.syscalls and policy.preset == "light":
        _refuse("Policy.syscalls", policy.syscalls, "the light preset has no filter to widen", "leave it out")


# ---- readable and writable ----


def _check_host(field: str, host: str, *, writable: bool) -> None:
    if host == "/":
        # Its submounts come with it: /proc of the host, /sys, every disk.
        whole = "name the directories that are needed" + ("" if writable else ", or give read=ReadPolicy.HOST")
        _refuse(field, host, "shows the whole host", whole)
    if contains("/proc", host):
        _refuse(field, host, "shows the host's processes", "leave it out: the guest has a /proc of its own")
    if contains("/dev", host) and (host == _SHARED_MEMORY or not contains(_SHARED_MEMORY, host)):
        _refuse(field, host, "the host's devices cannot be shown", "leave it out: the guest has a /dev of its own")
    if writable and contains("/sys", host):
        # A delegated control group beneath it would let the guest lift its own limits.
        _refuse(field, host, "a kernel file system cannot be writable", "give it in readable instead")


def _check_inside(policy: Policy, field: str, inside: str, host: str = "") -> None:
    for ours in (*_OURS, *(SYSTEM if policy.system else ())):
        if contains(inside, ours) or (ours in _OURS_ALTOGETHER and contains(ours, inside)):
            reason = f"would cover {ours} of the box" if inside != ours else "is there in every box already"
            _refuse(field, inside, reason, _instead(field, inside, host))


def _instead(field: str, inside: str, host: str) -> str:
    """What to do about a place that is the box's own."""
    system = host and any(contains(place, host) for place in (*SYSTEM, "/etc"))
    if system and field.startswith("Policy.writable"):
        return "leave it out: who writes there changes the host's own programs or settings; what a run makes goes to /workspace"
    if system and host == inside:
        return "leave it out: the box has its own, and what else is needed beneath it can be named by itself"
    name = inside.strip("/").rpartition("/")[2] or "host"
    return f"show it elsewhere: (host path, '/mnt/{name}')"


def _check_apart(policy: Policy) -> None:
    shown = {inside: host for host, inside in policy.readable}
    for at, (host, inside) in enumerate(policy.writable):
        if shown.get(inside, host) != host:
            reason = f"{inside} is in Policy.readable as well, from {shown[inside]}"
            _refuse(f"Policy.writable[{at}]", (host, inside), reason, "leave one of the two out")


# ---- protected and hidden ----


def _around(rules: list[Rule], inside: str) -> Rule | None:
    """What decides about a path before protected and hidden do."""
    return deciding((rule for rule in rules if rule.access in (Access.READABLE, Access.WRITABLE)), inside)


def _check_protected(policy: Policy, rules: list[Rule]) -> None:
    hidden = [rule for rule in rules if rule.access is Access.HIDDEN]
    for at, inside in enumerate(policy.protected):
        field, around = f"Policy.protected[{at}]", _around(rules, inside)
        if inside == WORKSPACE:
            _refuse(field, inside, "is the workspace itself", f"show the directory in readable instead, outside of {WORKSPACE}")
        covering = deciding([*hidden, *([around] if around is not None else [])], inside)
        if covering is not None and covering.access is Access.HIDDEN and covering.inside != inside:
            _refuse(field, inside, f"{covering.field} hides it already", "leave one of the two out")
        writable = around is not None and around.access is Access.WRITABLE and (around.field or around.inside == WORKSPACE)
        if not writable and (seen := _as_seen(policy.writable, inside)):
            _refuse(field, inside, "is a path of the host", f"name it as the guest sees it: {seen}")
        if around is None or (around.access is Access.READABLE and not around.field.startswith("Policy.readable")):
            remedy = "name it as the guest sees it, beneath a writable root or /workspace, or leave it out"
            _refuse(field, inside, "does not lie beneath a writable root", remedy)
        elif around.access is Access.READABLE:
            _refuse(field, inside, f"{around.field} shows it read-only already", "leave it out")
        elif not around.field and around.inside != WORKSPACE:
            _refuse(field, inside, f"{around.inside} is empty and private in every run", "leave it out")


def _as_seen(pairs: Iterable[Pair], path: str) -> str:
    """What the guest calls a path of the host that is shown to it elsewhere; empty where none of these shows it so."""
    found = [pair for pair in pairs if pair[0] != pair[1] and contains(pair[0], path)]
    host, inside = max(found, key=lambda pair: len(pair[0]), default=("", ""))
    return inside + path[len(host) :] if host else ""


def _check_hidden(policy: Policy, rules: list[Rule]) -> None:
    for at, inside in enumerate(policy.hidden):
        field, around = f"Policy.hidden[{at}]", _around(rules, inside)
        if ours := next((ours for ours in _OURS if contains(inside, ours)), None):
            _refuse(field, inside, f"would cover {ours} of the box", "name what is to be hidden beneath it")
        shown = around is not None and (around.field or around.inside not in (*_OURS_ALTOGETHER, _SHARED_MEMORY, "/tmp", HOME))
        if not shown and (seen := _as_seen((*policy.readable, *policy.writable), inside)):
            _refuse(field, inside, "is a path of the host", f"name it as the guest sees it: {seen}")
        if around is None:
            _refuse(field, inside, "nothing is shown there", "leave it out, or name it as the guest sees it")
        elif around.inside in _OURS_ALTOGETHER or around.inside == _SHARED_MEMORY:
            _refuse(field, inside, f"{around.inside} is the box's own", "leave it out")
        elif not around.field and around.inside in OWN and around.inside != WORKSPACE:
            _refuse(field, inside, f"{around.inside} is empty and private in every run", "leave it out")


# ---- links and PATH ----


def _check_links(policy: Policy, rules: list[Rule]) -> None:
    roots = [rule for rule in rules if rule.field.startswith(("Policy.readable", "Policy.writable"))]
    links = {inside: f"Policy.symlinks[{at}]" for at, (inside, _) in enumerate(policy.symlinks)}
    for inside, field in links.items():
        _check_inside(policy, field, inside)
        around = _around(rules, inside)
        if beneath := next((rule for rule in roots if contains(inside, rule.inside)), None):
            _refuse(field, inside, f"{beneath.field} is shown at {beneath.inside}", "put the link elsewhere")
        if other := next((one for one in links if one != inside and contains(one, inside)), None):
            _refuse(field, inside, f"lies beneath {links[other]}", "name the place that this one leads to")
        if inside.rpartition("/")[0] in OWN:
            _refuse(field, inside, f"{inside.rpartition('/')[0]} is private in every run", "put it into a directory there")
        of_host = (*SYSTEM, "/etc") if policy.preset == "light" else SYSTEM
        if around is not None and (around.field or around.inside in of_host):
            what = around.field or around.inside
            _refuse(field, inside, f"lies in what {what} shows of the host", "put it elsewhere, or make the link on the host")


def _check_path(policy: Policy, rules: list[Rule]) -> None:
    for at, directory in enumerate(policy.path):
        rule = deciding(rules, directory)
        if rule is not None and rule.access is Access.WRITABLE:
            what = rule.field or rule.inside
            reason = f"the guest can write there ({what}), and so choose what its programs' names mean"
            _refuse(f"Policy.path[{at}]", directory, reason, "show the programs in readable, or name them by path")
