"""Rung `landlock`: no user namespaces, not root. What its receipt claims, tried from inside and looked at from outside.

What it is like with namespaces is in test_isolation.py; the limits are in test_rung_landlock_ends.py.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import boxes
import pytest
import without_namespaces
from boxes import Guests
from running import PYTHON, sh
from without_namespaces import Try, attempts, own

from sandbox_native import Deletion, Policy, ReadPolicy, Rung, Sandbox, UnsupportedError, Writes

pytestmark = without_namespaces.MARKS
HELD = (
    *("pid", "tree", "net", "ipc", "groups", "capabilities", "no_new_privs", "session", "descriptors", "seccomp", "landlock"),
    *("rlimits", "memory", "wall_seconds"),
)
NOT_HELD = ("user", "mount", "uts", "control_group", "processes")


# ---- which rung it is, and what it is not ----


def test_the_receipt_says_what_holds_and_what_does_not(with_box: Try) -> None:
    def work(box: Sandbox) -> None:
        result = box.run(["/bin/true"])
        assert result.enforcement.rung is Rung.LANDLOCK
        assert {name: boxes.layer(result, name).held for name in HELD} == dict.fromkeys(HELD, True)
        assert {name: boxes.layer(result, name).held for name in NOT_HELD} == dict.fromkeys(NOT_HELD, False)

    with_box(work)


def test_it_serves_only_who_accepts_it(public: Guests) -> None:
    def work() -> None:
        for minimum in (Rung.NAMESPACES, Rung.FULL):
            with pytest.raises(UnsupportedError) as refusal:
                Sandbox(Policy.strict(minimum_rung=minimum))
            assert "user namespace" in str(refusal.value).lower() and refusal.value.remedy

    without_namespaces.in_a_plain_host(public, work)


def test_what_only_mounts_can_do_is_refused_before_anything_runs(public: Guests, secret: Path) -> None:
    (secret / "below").mkdir()
    os.chown(secret / "below", boxes.PLAIN_USER, boxes.PLAIN_USER)

    def work() -> None:
        asked = {
            "ReadPolicy.HOST": Policy.strict(read=ReadPolicy.HOST, minimum_rung=Rung.LANDLOCK),
            "Policy.readable[0]": Policy.strict(readable=[(str(secret), "/elsewhere")], minimum_rung=Rung.LANDLOCK),
            "Policy.hidden": Policy.strict(readable=[secret], hidden=[secret / "file"], minimum_rung=Rung.LANDLOCK),
            "/below": Policy.strict(writable=[secret], protected=[secret / "below"], minimum_rung=Rung.LANDLOCK),
            "Writes.COMMIT": Policy.strict(writable=[secret], writes=Writes.COMMIT, minimum_rung=Rung.LANDLOCK),
            "Policy.symlinks": Policy.strict(symlinks=[("/opt-link", "/usr")], minimum_rung=Rung.LANDLOCK),
            "Policy.explain": Policy.strict(explain=True, minimum_rung=Rung.LANDLOCK),
        }
        for named, policy in asked.items():
            with pytest.raises(UnsupportedError) as refusal:
                Sandbox(policy)
            assert named in str(refusal.value), (named, str(refusal.value))

    without_namespaces.in_a_plain_host(public, work)


# ---- files ----


def test_files_outside_cannot_be_read_listed_or_written(with_box: Try, public: Guests, secret: Path) -> None:
    def work(box: Sandbox) -> None:
        words = f"read {secret}/file , write {secret}/file , create {secret}/new , mkdir {secret}/newer , read /etc/passwd"
        words += (
            f" , create /tmp/attempt-{os.getpid()} , create /dev/shm/attempt-{os.getpid()} , read /dev/tty , write /etc/hosts"
        )
        assert set(attempts(box, public, words).values()) <= {errno.EACCES, errno.ENXIO}
        for command in (
            f"ls {secret}",
            "ls /",
            "ls /home",
            f"cd {secret} && cat file",
            f"cat < {secret}/file",
            f"head -c1 {secret}/*",
        ):
            result = box.run(sh(f"{command} || exit 7"))
            assert result.exit_code == 7 and b"secret" not in result.stdout, command

    with_box(work)
    assert ((secret / "file").read_text(), sorted(os.listdir(secret))) == ("secret", ["file"])


def test_links_and_moves_bring_nothing_in_or_out(with_box: Try, public: Guests, secret: Path) -> None:
    def work(box: Sandbox) -> None:
        commands = (f"ln {secret}/file hard", f"mv {secret}/file .", f"touch f; mv f {secret}", f"ln -s {secret}/file s; cat s")
        for command in commands:
            result = box.run(sh(f"{command} || exit 7"))
            assert result.exit_code == 7, (command, result.stdout)

    with_box(work)
    assert sorted(os.listdir(secret)) == ["file"]


def test_what_belongs_to_the_user_keeps_its_mode_times_and_attributes(with_box: Try, public: Guests, secret: Path) -> None:
    """Landlock knows no right for these: the owner's calls are refused, and init makes them where the guest may write."""
    before = {path: path.stat() for path in (secret, secret / "file")}
    tries = (
        f"import os; os.chmod('{secret}/file', 0o777)",
        f"import os; os.chmod('{secret}', 0o777)",
        f"import os; os.utime('{secret}/file', (1, 1))",
        f"import os; os.utime('{secret}/file')",
        f"import os; os.symlink('{secret}/file', 'link'); os.chmod('link', 0o777)",
        f"import os; os.chdir('{secret}'); os.chmod('file', 0o777)",
        f"import os; os.chmod('file', 0o777, dir_fd=os.open('{secret}', os.O_PATH))",
        f"import os; os.fchmod(os.open('{secret}/file', os.O_PATH), 0o777)",
        f"import os; os.chmod('/proc/self/fd/%d' % os.open('{secret}/file', os.O_PATH), 0o777)",
        f"import os; os.chmod('../../../..{secret}/file', 0o777)",
        f"import os; os.chown('{secret}/file', os.getuid(), os.getgid())",
        f"import os; os.setxattr('{secret}/file', 'user.x', b'1')",
        f"import os; os.getxattr('{secret}/file', 'user.x')",
    )

    def work(box: Sandbox) -> None:
        for code in tries:
            result = box.run([PYTHON, "-c", code])
            assert result.exit_code == 1 and (b"Error: [Errno" in result.stderr), (code, result)

    with_box(work)
    after = {path: path.stat() for path in before}
    for path, was in before.items():
        assert (after[path].st_mode, after[path].st_mtime_ns, after[path].st_ctime_ns) == (
            was.st_mode,
            was.st_mtime_ns,
            was.st_ctime_ns,
        )


def test_its_own_files_modes_and_times_can_be_changed(with_box: Try) -> None:
    script = (
        "touch a; chmod 640 a; stat -c %a a; touch -d 2001-02-03 a; stat -c %Y a;"
        "mkdir -p d/e; chmod -R u=rwx,go=x d; stat -c %a d/e;"
        "ln -s a l; touch -h -d 2002-02-02 l; stat -c %Y l a; chmod 600 $TMPDIR $HOME; cp -p a b; stat -c %a%Y b;"
        "cd d/e && chmod 700 ../../a && stat -c %a ../../a"
    )

    def work(box: Sandbox) -> None:
        told = own(box, script).split()
        assert told == ["640", "981158400", "711", "1012608000", "981158400", "640981158400", "700"]
        code = "import os; fd = os.open('a', os.O_CREAT); os.fchmod(fd, 0o711); os.utime(fd, (1, 2)); print(*os.fstat(fd)[0:9:8])"
        assert box.run([PYTHON, "-c", code]).text == f"{0o100711} 2\n"
        refused = box.run(sh("touch a; chmod 4755 a || chmod 2755 a || exit 7"))
        assert refused.exit_code == 7

    with_box(work)


def test_roots_are_at_their_own_paths_and_readable_ones_stay_as_they_are(public: Guests, secret: Path) -> None:
    read, write = secret / "read", secret / "write"
    for path in (read, write):
        path.mkdir()
        (path / "file").write_text("text")
    for path in (read, write, read / "file", write / "file"):
        os.chown(path, boxes.PLAIN_USER, boxes.PLAIN_USER)

    def work() -> None:
        policy = Policy.strict(readable=[read], writable=[write], minimum_rung=Rung.LANDLOCK)
        with Sandbox(policy) as box:
            assert own(box, f"cat {read}/file {write}/file; ls {read}") == "texttextfile\n"
            assert (
                box.run(
                    sh(f"echo x > {read}/file || chmod 777 {read}/file || touch {read}/file || rm {read}/file || exit 7")
                ).exit_code
                == 7
            )
            code = f"import os; fd = os.open('{read}/file', os.O_RDONLY); "
            for change in ("os.fchmod(fd, 0o777)", "os.utime(fd)", "os.chown(fd, -1, os.getgid())"):
                assert box.run([PYTHON, "-c", code + change]).exit_code == 1, change
            assert own(box, f"echo new > {write}/made; chmod 700 {write}/made; mv {write}/file {write}/moved; echo ok") == "ok\n"
            assert box.run(sh(f"cat {secret}/file || exit 7")).exit_code == 7

    without_namespaces.in_a_plain_host(public, work)
    assert sorted(os.listdir(write)) == ["made", "moved"] and os.listdir(read) == ["file"]


def test_a_root_that_was_replaced_is_not_shown(public: Guests, secret: Path) -> None:
    shown, other = secret / "shown", secret / "other"
    for path in (shown, other):
        path.mkdir()
        (path / "file").write_text(path.name)
        os.chown(path, boxes.PLAIN_USER, boxes.PLAIN_USER)

    def work() -> None:
        with Sandbox(Policy.strict(readable=[shown], minimum_rung=Rung.LANDLOCK)) as box:
            assert own(box, f"cat {shown}/file") == "shown"
            box.run(["/bin/true"])
            shown.rename(secret / "away")
            other.rename(shown)
            outcomes = set()
            for _ in range(4):  # boxes that were made before have what was there then
                try:
                    outcomes.add(box.run(sh(f"cat {shown}/file || exit 7")).exit_code)
                except Exception as error:
                    outcomes.add(type(error).__name__)
            assert outcomes <= {7, "SetupError"}, outcomes

    without_namespaces.in_a_plain_host(public, work)


def test_deletion_is_denied_in_the_workspace_and_in_roots(public: Guests, secret: Path) -> None:
    def work() -> None:
        policy = without_namespaces.policy(public, writable=[secret], deletion=Deletion.DENY)  # type: ignore[arg-type]
        with Sandbox(policy) as box:
            for top in (".", str(secret)):
                words = f"make {top}/a , unlink {top}/a , rename {top}/a {top}/b , truncate {top}/a , append {top}/a"
                lines = box.run([str(public["removals"]), *words.split()]).text.splitlines()
                assert [int(line.rsplit("=", 1)[1]) for line in lines] == [0, errno.EACCES, errno.EACCES, 0, 0]
            assert own(box, "cd $TMPDIR && touch a && mv a b && rm b && cd $HOME && touch a && rm a && echo ok") == "ok\n"

    without_namespaces.in_a_plain_host(public, work)


@pytest.mark.parametrize("name", [".git/hooks", ".bashrc"])
def test_a_workspace_with_what_is_protected_is_refused(with_box: Try, secret: Path, name: str) -> None:
    """Rights add up along a path, so nothing can be read-only beneath what is writable."""
    (secret / name).mkdir(parents=True) if name.endswith("hooks") else (secret / name).write_text("")
    for path in secret.rglob("*"):
        os.chown(path, boxes.PLAIN_USER, boxes.PLAIN_USER)

    def work(box: Sandbox) -> None:
        with pytest.raises(UnsupportedError) as refusal:
            box.run(["/bin/true"], workspace=secret)
        assert name in str(refusal.value.missing)
        assert box.run(["/bin/true"]).ok

    with_box(work)


def test_what_a_guest_makes_under_a_protected_name_is_moved_away(with_box: Try, secret: Path) -> None:
    def work(box: Sandbox) -> None:
        result = box.run(sh("echo evil > .bashrc; mkdir -p .git/hooks; echo fine > fine"), workspace=secret)
        assert result.ok and any(".bashrc" in denial.name for denial in result.denials)
        assert boxes.layer(result, "protected").held is False

    with_box(work)
    assert not (secret / ".bashrc").exists() and (secret / "fine").exists()
