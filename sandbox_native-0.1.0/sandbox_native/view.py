"""What a box shows: the operations that make its root, and those that every box adds. Pure.

What the host's file tree looks like comes in as a HostTree (hosttree.py reads it), so that the same facts always
give the same plan. Where the policy's own paths go is decided in placing.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sandbox_native import paths
from sandbox_native._native import lib
from sandbox_native.environment import HOME, USER, WORKSPACE
from sandbox_native.placing import EMPTY, READ_ONLY, SAFE, Places
from sandbox_native.plan import INSIDE_UID, Op
from sandbox_native.policy import Policy, Writes
from sandbox_native.rules import SYSTEM
from sandbox_native.shown import COPIED_ETC, SHARED_ETC, HostTree, Shown

__all__ = [
    "CHANGES",
    "COPIED_ETC",
    "SHARED_ETC",
    "SYSTEM",
    "HostTree",
    "Shown",
    "box_ops",
    "made_up",
    "masked_paths",
    "template_ops",
]

_SIZED: Final = SAFE | lib.SN_OP_SIZED

_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_DEVICE_LINKS: Final = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
_SHM_BYTES: Final = 64 << 20
_INODES: Final = 65536

# Files of /proc that tell of the whole host to everybody, or that everybody may write (pressure: a trigger there costs
# the kernel a thread). Each mask costs a run about 10 us, so what the guest cannot open anyway is not here: it has no
# capability, and the owner of kcore, kmsg, timer_list, kpage*, slabinfo, sysrq-trigger and of all below sys, irq, bus
# and fs is the host's root, which the guest never is and whose id its user namespace does not map.
_MASKED: Final = (
    ("/proc/keys", False),
    ("/proc/key-users", False),
    ("/proc/kallsyms", False),
    ("/proc/modules", False),
    ("/proc/cmdline", False),
    ("/proc/sched_debug", False),
    ("/proc/pressure", True),
)
CHANGES: Final = "/.changes"
"""Where a box keeps the changes of overlays while they are mounted."""


def template_ops(policy: Policy, tree: HostTree, root: bool) -> list[Op]:
    """The root file system; `root`: the host's user is root. Directories that lead to a target are the launcher's to make."""
    shown = {one.inside for one in tree.shown if one.kind not in ("guard", "mask")}
    ops = [op for path in SYSTEM if policy.system and path not in shown for op in _system(path, tree)]
    if "/etc" not in shown:
        ops += [_bind("/etc", READ_ONLY)] if policy.preset == "light" else _made_up_etc(policy, tree)
    ops += _devices()
    # A user namespace may mount a /proc of its own only where it already sees a whole one. Every box covers this one.
    ops.append(_bind("/proc", SAFE | lib.SN_OP_NOEXEC | (lib.SN_OP_NORECURSE if root else 0)))
    ops += (
        Op(lib.SN_OP_DIR, path, mode=0o755)
        for path in ("/tmp", HOME, WORKSPACE, "/run", "/dev/shm", "/dev/mqueue")
        if path not in shown
    )
    if not any(paths.contains("/var/tmp", inside) or inside == "/var" for inside in shown):
        ops.append(_link("/var/tmp", "/tmp"))
    ops.append(Op(lib.SN_OP_DIR, f"{EMPTY}/dir", mode=0))
    ops.append(Op(lib.SN_OP_FILE, f"{EMPTY}/file", mode=0))
    if policy.writes is Writes.COMMIT:
        ops.append(Op(lib.SN_OP_DIR, CHANGES, mode=0o700))
    return ops + _placed(policy, tree, root).template


def box_ops(policy: Policy, tree: HostTree, proc: bool = True) -> list[Op]:
    """What init mounts in every box, on top of the template's root. `proc`: the kernel permits a new one; else it is covered."""
    owner = f"uid={INSIDE_UID},gid={INSIDE_UID}"
    inodes = f"nr_inodes={_INODES}"
    ops = [
        Op(lib.SN_OP_TMPFS, "/tmp", _SIZED, data=f"mode=1777,{inodes}".encode()),
        Op(lib.SN_OP_TMPFS, HOME, _SIZED, data=f"mode=0700,{owner},{inodes}".encode()),
        Op(lib.SN_OP_TMPFS, WORKSPACE, _SIZED, data=f"mode=0755,{owner},{inodes}".encode()),
        Op(lib.SN_OP_MQUEUE, "/dev/mqueue", SAFE | lib.SN_OP_NOEXEC),
        Op(lib.SN_OP_TMPFS, "/dev/shm", SAFE | lib.SN_OP_NOEXEC, data=f"mode=1777,size={_SHM_BYTES},{inodes}".encode()),
        Op(lib.SN_OP_PROC, "/proc", SAFE | lib.SN_OP_NOEXEC) if proc else Op(lib.SN_OP_MASK, "/proc", source=f"{EMPTY}/dir"),
    ]
    if policy.preset == "strict" and proc:
        for path, directory in _MASKED:
            if path in tree.proc:
                ops.append(Op(lib.SN_OP_MASK, path, source=f"{EMPTY}/{'dir' if directory else 'file'}"))
    return ops + _placed(policy, tree, False).box


def _placed(policy: Policy, tree: HostTree, root: bool) -> Places:
    places = Places(kept_apart=policy.writes is Writes.COMMIT, owner_map=root)
    links = [Shown(kind="link", inside=inside, source=text, field="Policy.symlinks") for inside, text in policy.symlinks]
    places.place_all((*tree.shown, *links))
    return places


def masked_paths() -> tuple[str, ...]:
    """Every path that could be masked: whether it is there is the host tree's to say."""
    return tuple(path for path, _ in _MASKED)


def _bind(path: str, flags: int) -> Op:
    return Op(lib.SN_OP_BIND, path, flags, source=path)


def _link(path: str, text: str) -> Op:
    return Op(lib.SN_OP_SYMLINK, path, data=text.encode("utf-8", "surrogateescape"))


def _system(path: str, tree: HostTree) -> Iterator[Op]:
    if path in tree.links:
        yield _link(path, tree.links[path])
    elif path in tree.directories:
        yield _bind(path, READ_ONLY)


def _made_up_etc(policy: Policy, tree: HostTree) -> Iterator[Op]:
    for path, text in _etc_texts(policy.hostname):
        yield Op(lib.SN_OP_FILE, path, mode=0o644, data=text.encode())
    for path, data in tree.files.items():
        yield Op(lib.SN_OP_FILE, path, mode=0o644, data=data)
    for path in sorted(tree.directories):
        if path.startswith("/etc/") and policy.system:
            yield _bind(path, READ_ONLY | lib.SN_OP_OPTIONAL)
    yield _link("/etc/mtab", "/proc/self/mounts")
    yield _link("/etc/os-release", "../usr/lib/os-release")


def made_up(tree_files: Mapping[str, bytes]) -> frozenset[str]:
    """Files that a strict box has in /etc and that are not the host's own."""
    return frozenset((*(path for path, _ in _etc_texts("")), *tree_files))


def _etc_texts(hostname: str) -> Iterator[tuple[str, str]]:
    none = "/usr/sbin/nologin"
    yield (
        "/etc/passwd",
        f"root:x:0:0:root:/root:{none}\n"
        f"{USER}:x:{INSIDE_UID}:{INSIDE_UID}:{USER}:{HOME}:/bin/sh\n"
        f"nobody:x:65534:65534:nobody:/nonexistent:{none}\n",
    )
    yield "/etc/group", f"root:x:0:\n{USER}:x:{INSIDE_UID}:\nnogroup:x:65534:\n"
    yield "/etc/hosts", f"127.0.0.1 localhost {hostname}\n::1 localhost ip6-localhost ip6-loopback\n"
    yield "/etc/hostname", f"{hostname}\n"
    databases = "passwd group shadow hosts networks protocols services ethers rpc"
    yield "/etc/nsswitch.conf", "".join(f"{name}: files\n" for name in databases.split())


def _devices() -> Iterator[Op]:
    # The host's own nodes. Read-only says nothing about writing to a device; it keeps the node's times and mode as they are.
    for name in _DEVICES:
        yield _bind(f"/dev/{name}", lib.SN_OP_RDONLY | lib.SN_OP_NOSUID)
    for name, tail in _DEVICE_LINKS.items():
        yield _link(f"/dev/{name}", f"/proc/self/fd{tail}")
