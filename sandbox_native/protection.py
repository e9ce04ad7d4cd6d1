"""What has to be guarded in one writable directory of the host's, and what was there before a guest came. Linux, host process.

Called by showing.py for a policy's writable roots and by run_checks.py for a run's workspace; quarantine.py compares with
it afterwards. What exists is made read-only, and every directory on the way to it a mount point, so that it cannot be renamed
(`mv .git x; mkdir -p .git/hooks` passes a bind on hooks alone). What does not exist cannot be a mount point.

A link cannot be one either. What it leads to is guarded when that lies beneath the root; the link itself is remembered, with
its text, and put back after the run. Git's own pointers, the `.git` files of worktrees and submodules, are followed alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sandbox_native import mandatory
from sandbox_native.leads import Leads, Place
from sandbox_native.snapshots import State, UnreadError, look_softly, snapshot
from sandbox_native.survey import Survey

_ROUNDS: Final = 16  # of what leads to what leads on: a worktree's .git file to a directory with a commondir


@dataclass(frozen=True, slots=True)
class Guard:
    """One mount on top of a workspace: `name` relative to it, what was there when it was looked at, and what is done to it:
    read-only, covered, or neither: then it only cannot be renamed."""

    name: str
    device: int
    inode: int
    read_only: bool = False
    mask: bool = False
    directory: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a policy denies in one root, as names relative to it. `host`: the root's own path."""

    host: str
    deny_write: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    """Something else is shown at these: what leads there is guarded, they are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """`names`: all that is denied or hidden, be it there or not; `denied` without what is hidden. `before`: what was there, of
    these and the directories on the way. `guards`: what lies around others first."""

    names: frozenset[str]
    denied: frozenset[str]
    before: Mapping[str, State]
    guards: tuple[Guard, ...]
    passed: frozenset[str] = frozenset()
    """Links on the way from one of these to where it leads, and what is kept: not denied, but links lead where they led."""
    ours: frozenset[str] = frozenset()
    """What the host itself had left at the top."""
    watched: bool = True
    """That is known."""

    @property
    def links(self) -> tuple[str, ...]:
        """Links on the way to a denied name: they can be replaced during a run, and are put back after it."""
        return tuple(sorted(name for name, state in self.before.items() if state.kind == "link"))

    @property
    def absent(self) -> tuple[str, ...]:
        """Denied names that nothing can be mounted on."""
        return tuple(sorted(self.names - self.before.keys()))


def protect(root: int, wanted: Wanted, survey: Survey) -> Protection:
    """Of the directory `root`, which stays the caller's. Follows no link: a guest may be at work in it. PermissionError when the
    root itself may not be entered, UnreadError when something that may lead elsewhere cannot be read."""
    place = Place(root, wanted.host)
    names = {*mandatory.names(survey.repositories, wanted.deny_write), *wanted.protected}
    names.update(mandatory.within(wanted.host, wanted.deny_write))
    for directory in survey.git_directories:
        names.update(mandatory.of_git(directory))
    kept = {name for directory in survey.git_directories for name in mandatory.kept(directory)}
    hidden = set(wanted.hidden)
    for _ in range(_ROUNDS):
        ways = kept | place.passed
        before, shut = snapshot(root, names | hidden | ways)
        more = Leads(place, before)
        new_names, new_hidden = more.of(names), more.of(hidden)
        if new_names <= names and new_hidden <= hidden and place.passed <= ways:
            break
        names |= new_names
        hidden |= new_hidden
    else:
        path = next(iter(sorted((new_names - names) | (new_hidden - hidden))), "") or next(iter(sorted(place.passed)), "")
        raise UnreadError(path, "what leads to it leads on and on")
    shut |= {path: state for path in survey.unreadable if (state := look_softly(root, path))}
    guards = _guards(root, {**shut, **before}, names | shut.keys(), hidden, wanted.roots, kept & before.keys())
    return Protection(
        names=frozenset(names | hidden),
        denied=frozenset(names),
        before=before,
        guards=tuple(guards),
        passed=frozenset(ways - names - hidden),
        ours=frozenset(survey.ours),
    )


# ---- guarding ----


def _guards(
    root: int,
    states: Mapping[str, State],
    fixed: Iterable[str],
    hidden: Iterable[str],
    roots: Iterable[str],
    kept: Iterable[str],
) -> Iterator[Guard]:
    """Of what is there; nothing beneath what is covered or read-only needs one, but to cover it. `roots`: what is seen at and
    beneath them is another's. `kept`: can be written, and not moved."""
    others = set(roots)
    states = {name: state for name, state in states.items() if name not in others and not _below_one(name, others)}
    masks = {name for name in hidden if name in states}
    read_only = {name for name in fixed if name in states and name not in masks}
    ends = [name for name in masks | read_only if states[name].kind in ("directory", "file") and not _below_one(name, masks)]
    ends = [name for name in ends if name in masks or not _below_one(name, read_only)]
    links = [name for name, state in states.items() if state.kind == "link"]
    ways = {*kept, *_ways([*kept, *ends, *others, *links])}
    ways = {name for name in ways if name not in others and not _below_one(name, others)}
    for name in sorted({*ends, *ways}, key=lambda name: (name.count("/"), name)):
        state = states.get(name) or look_softly(root, name)
        if state is None or state.kind == "link" or (name not in ends and (name in masks or _below_one(name, masks | read_only))):
            continue
        yield Guard(name, state.device, state.inode, name in read_only, name in masks, state.kind == "directory")


def _ways(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        while "/" in name:
            name = name.rpartition("/")[0]
            yield name


def _below_one(name: str, others: set[str]) -> bool:
    return any(way in others for way in _ways([name]))
