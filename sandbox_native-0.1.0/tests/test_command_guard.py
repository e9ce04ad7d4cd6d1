"""Command lines of agents: what is taken is what a shell would have made of it, and what looks like more is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_native import PolicyError
from sandbox_native.command_guard import CommandGuard
from sandbox_native.policy import Policy

ALLOWED = {"ls", "cat", "git", "echo", "tar", "gcc", "./run"}
GUARD = CommandGuard(ALLOWED)


def refusal(line: object, guard: CommandGuard = GUARD) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        guard.check(line)  # type: ignore[arg-type]
    assert caught.value.field.startswith("command") and caught.value.reason and caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("ls", ["ls"]),
        ("  ls\t-l  ", ["ls", "-l"]),
        ("echo 'a; b | c && d > e $f `g` * ?'", ["echo", "a; b | c && d > e $f `g` * ?"]),
        ('echo "it\'s; one" two\'\'three ""', ["echo", "it's; one", "twothree", ""]),
        ("echo 'a\"' '$x\"'", ["echo", 'a"', '$x"']),
        ('"git" status', ["git", "status"]),
        ("g'i't log --format='%h %s' a..b", ["git", "log", "--format=%h %s", "a..b"]),
        ("./run x", ["./run", "x"]),
        (
            "cat /usr/bin/env /etc/passwd /bin/sh /proc/self/status",
            ["cat", "/usr/bin/env", "/etc/passwd", "/bin/sh", "/proc/self/status"],
        ),
        ("gcc -I/usr/include -o out/new.bin src/a.c", ["gcc", "-I/usr/include", "-o", "out/new.bin", "src/a.c"]),
        ("git clone https://example.com/x/y", ["git", "clone", "https://example.com/x/y"]),
        ("cat . / - -- é", ["cat", ".", "/", "-", "--", "é"]),
    ],
)
def test_an_ordinary_line_is_its_argv(line: str, argv: list[str]) -> None:
    assert GUARD.check(line) == argv


@pytest.mark.parametrize(
    "line",
    [
        *("ls; id", "ls;id", "ls & id", "ls && id", "ls || id", "ls | id", "ls |& id", "(ls)", "{ ls; }", "! ls"),
        *("ls > x", "ls >> x", "ls < x", "ls 2>&1", "cat << x", "cat <<< x", "cat <(id)", "ls $(id)", "ls `id`"),
        *(
            "echo $HOME",
            "echo ${IFS}",
            "echo $((1))",
            'echo "$HOME"',
            'echo "`id`"',
            'echo "a\\"; id"',
            "echo a\\ b",
            "echo \\; id",
        ),
        *("ls *", "ls ?", "ls [a]", "ls {a,b}", "ls ~", "ls ~root", "ls # x", "echo !!", "echo 'a'$(id)'b'", 'echo "a"`id`"b"'),
    ],
)
def test_what_a_shell_would_do_more_is_refused(line: str) -> None:
    assert "means something to a shell" in refusal(line).reason


@pytest.mark.parametrize("character", ["\n", "\r", "\v", "\f", "\0", "\x1b", "\x7f", "\x85", "\u2028", "\u2029"])
def test_line_ends_and_control_characters_are_refused_even_in_quotes(character: str) -> None:
    for line in (f"ls {character} id", f"ls '{character}id'", f"ls{character}", f'"ls"{character}id'):
        assert "control character" in refusal(line).reason


@pytest.mark.parametrize("line", ["", "  ", "\t", None, b"ls", ["ls"], "''", '"" x'])
def test_a_line_without_a_program_is_refused(line: object) -> None:
    refusal(line)


@pytest.mark.parametrize("line", ["echo 'a", 'echo "a', 'echo a\'b"c"', "'ls"])
def test_an_open_quote_is_refused(line: str) -> None:
    assert refusal(line).reason == "no closing quotation"


@pytest.mark.parametrize(
    "line",
    [
        *("/bin/ls", "LS", "lS", "ls/", "./ls", "../ls", "run", ".//run", "/workspace/run", "lsx", "l", "id", "'ls '", "'ls -l'"),
        *(
            "ｌｓ",
            "ls\u200b",
            "ls\u00a0-l",
            "PATH=/tmp ls",
            "LD_PRELOAD=x ls",
            "command ls",
            "exec ls",
            "env ls",
            "sudo ls",
            "-- ls",
        ),
    ],
)
def test_the_first_word_is_an_allowed_name_letter_by_letter(line: str) -> None:
    error = refusal(line)
    assert error.reason == "not an allowed program" and "cat, echo, gcc, git, ls, tar" in error.remedy


@pytest.mark.parametrize(
    "word",
    [
        *("/etc/shadow", "//etc/shadow", "/./etc//shadow", "'/etc/shadow'", "/e'tc/sha'dow", "/root/x", "/srv", "/etc/shadow/"),
        *(
            "--file=/etc/shadow",
            "if=/etc/shadow",
            "-I/etc/shadow",
            "-xf/etc/shadow",
            "@/etc/shadow",
            "a:/etc/shadow",
            "a,/etc/shadow",
        ),
        *(
            "../etc/shadow",
            "a/../../etc/shadow",
            "/usr/../etc/shadow",
            "..",
            "-C..",
            "-C../x",
            "--dir=..",
            "--dir=a/..",
            "x:..",
            "a/..",
        ),
        *("file:///etc/shadow", "file:/etc/shadow", "FILE:///etc/shadow", "http://../../etc/shadow", "/.empty/x", "/.roots/0"),
    ],
)
def test_a_path_that_the_policy_does_not_show_is_refused(word: str) -> None:
    error = refusal(f"cat {word}")
    assert error.field == "command[1]"
    assert "holds '..'" in error.reason or "is not in the view" in error.reason


def test_a_hidden_path_is_refused_in_every_spelling(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    guard = CommandGuard(ALLOWED, Policy.strict(readable=[(str(tmp_path), "/data")], hidden=["/data/secret"]), cwd="/data")
    assert guard.check("cat /data/open ok") == ["cat", "/data/open", "ok"]
    for word in (
        "/data/secret",
        "/data/secret/x",
        "secret",
        "secret/x",
        "./secret",
        "--x=secret",
        "//data//secret/",
        "a=/data/secret",
    ):
        assert "is hidden" in refusal(f"cat {word}", guard).reason


def test_a_path_is_by_component(tmp_path: Path) -> None:
    guard = CommandGuard(ALLOWED, Policy.strict(readable=[(str(tmp_path), "/data/ws/1")]))
    assert guard.check("cat /data/ws/1/x /data/ws")
    assert "/data/ws/10 is not in the view" in refusal("cat /data/ws/10", guard).reason


@pytest.mark.parametrize(
    ("allowed", "field"), [("ls", "allowed"), (None, "allowed"), ([""], "allowed[0]"), ([b"ls"], "allowed[0]")]
)
def test_allowed_is_a_set_of_names(allowed: object, field: str) -> None:
    with pytest.raises(PolicyError) as caught:
        CommandGuard(allowed)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_a_long_line_is_refused() -> None:
    assert "characters long" in refusal("echo " + "x" * (1 << 17)).reason


def test_it_says_that_it_is_no_boundary() -> None:
    assert "A courtesy and not the boundary" in (CommandGuard.__doc__ or "")


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None)
@given(st.text(alphabet="ab '\"\t;|&$`\\*?[]{}~!#=<>()-/.:é", max_size=14))
def test_a_shell_makes_the_same_words_of_what_passes(rest: str) -> None:
    try:
        argv = GUARD.check(f"echo {rest}")
    except PolicyError:
        return
    script = f"set -- echo {rest}\nprintf '%s\\0' \"$@\""
    told = subprocess.run(["sh", "-c", script], capture_output=True, check=True, cwd="/")
    assert told.stdout.decode().split("\0")[:-1] == argv
