"""The guest's environment: what is ours, what a policy inherits, what the caller gives, and what no message shows."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native import Policy, PolicyError, Sandbox
from sandbox_native.environment import BASE, DETERMINISTIC, Environment, check_inherit
from sandbox_native.request import Encoder

SECRET = "s3cr3t-7f1c"


def refused(env: Mapping[str, str], environment: Environment | None = None) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        (environment or Environment()).of(env)
    return caught.value


# ---- ours ----


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("PATH", "Policy.path"), ("LANG", "LC_ALL"), ("HOME", "XDG_"), ("USER", "guest"), ("LOGNAME", "guest"), ("TMPDIR", "/tmp")],
)
def test_what_we_set_cannot_be_overridden(name: str, remedy: str) -> None:
    error = refused({name: "/other"})
    assert (error.field, error.value) == (f"env[{name!r}]", "'/other'")
    assert "set by us" in error.reason and remedy in error.remedy
    assert Environment().of({name: BASE[name]}) == BASE


def test_other_names_are_the_callers_word() -> None:
    given = {"LC_ALL": "C", "LD_PRELOAD": "/x.so", "PYTHONPATH": "/y", "TERM": "a\nb"}
    assert Environment().of(given) == {**BASE, **given}


def test_directories_of_the_policy_come_first_in_path() -> None:
    environment = Environment(path=("/a", "/b"))
    assert environment.search == f"/a:/b:{BASE['PATH']}" == environment.of(None)["PATH"]


def test_deterministic_fixes_seed_zone_and_locale() -> None:
    environment = Environment(deterministic=True)
    assert environment.of(None) == {**BASE, "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    assert environment.of({"TZ": "UTC"})["TZ"] == "UTC"
    for name in DETERMINISTIC:
        assert "Policy.deterministic" in refused({name: "other"}, environment).remedy
        assert Environment().of({name: "other"})[name] == "other"


# ---- inherited ----


HOST = {
    "TZ": "Europe/Paris",
    "TERM": "xterm",
    "LC_TIME": "de_DE",
    "LC_ALL": "fr_FR",
    "LDFLAGS": "-x",
    "TOKEN": "t",
    "LD_PRELOAD": "/x.so",
    "PYTHONPATH": "/y",
    "BASH_FUNC_f%%": "() { :; }",
    "LC_EVIL": "() { :; }",
    "PATH": "/z",
    "LC_LONG": "x" * 4097,
    "LC_LINES": "a\nb",
    "LC_ESCAPE": "\x1b[0m",
    "LC_CSI": "\x9b0m",
    "LC_EDGE": "x" * 4096,
}


def test_only_named_variables_are_inherited() -> None:
    assert Environment(inherit=("TZ", "COLUMNS", "TERM")).inherited(HOST) == (("TZ", "Europe/Paris"), ("TERM", "xterm"))
    assert Environment().inherited(HOST) == ()


def test_a_pattern_takes_clean_values_only() -> None:
    found = dict(Environment(inherit=("LC_*",)).inherited(HOST))
    assert found == {"LC_TIME": "de_DE", "LC_ALL": "fr_FR", "LC_EDGE": "x" * 4096}


def test_a_pattern_takes_nothing_that_injects_and_nothing_of_ours() -> None:
    assert dict(Environment(inherit=("LD*", "P*")).inherited(HOST)) == {"LDFLAGS": "-x"}
    unsafe = Environment(inherit=("LD*", "P*"), inherit_unsafe=True)
    assert dict(unsafe.inherited(HOST)) == {"LDFLAGS": "-x", "LD_PRELOAD": "/x.so", "PYTHONPATH": "/y"}


def test_deterministic_beats_what_a_pattern_inherits() -> None:
    environment = Environment(inherit=("LC_*",), deterministic=True)
    assert environment.of(None, environment.inherited(HOST))["LC_ALL"] == "C.UTF-8"


def test_env_beats_what_is_inherited() -> None:
    environment = Environment(inherit=("TZ",))
    assert environment.of({"TZ": "Asia/Tokyo"}, environment.inherited(HOST))["TZ"] == "Asia/Tokyo"


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_*", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHON*", "BASH_ENV", "ENV", "NODE_OPTIONS", "PERL5LIB"),
        *("PERL5OPT", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "GIT_EXEC_PATH", "GCONV_PATH", "MALLOC_TRACE", "IFS", "PS4"),
        *("GLIBC_TUNABLES", "IFS*"),
    ],
)
def test_injection_is_refused_unless_asked_for(name: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.strict(inherit=[name])
    assert caught.value.field == "Policy.inherit[0]" and "inherit_unsafe" in caught.value.remedy
    assert Policy.strict(inherit=[name], inherit_unsafe=True).inherit == (name,)


@pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "*", "A=B", "LC_*_X", "A\0", "[AB]"])
def test_what_cannot_be_inherited_at_all_is_refused(name: str) -> None:
    with pytest.raises(PolicyError) as caught:
        check_inherit(("TZ", name), unsafe=True, deterministic=False)
    assert caught.value.field == "Policy.inherit[1]" and caught.value.remedy


def test_inheriting_what_is_fixed_is_refused() -> None:
    with pytest.raises(PolicyError) as caught:
        check_inherit(("TZ",), unsafe=False, deterministic=True)
    assert "deterministic" in caught.value.remedy


# ---- secrets ----


@pytest.mark.parametrize(
    ("secrets", "env"),
    [
        ({"TOKEN": SECRET}, {"TOKEN": "x"}),
        ({"PATH": SECRET}, None),
        ({"A=B" + SECRET: SECRET}, None),
        ({"": SECRET}, None),
        ({"TOKEN": SECRET + "\0"}, None),
        ({"TOKEN": SECRET.encode()}, None),
        ({"TOKEN": SECRET + "\ud800"}, None),
        ({"TOKEN": SECRET, "B\0": "x"}, None),
        ([("TOKEN", SECRET)], None),
        (SECRET, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_error_holds_a_secret(secrets: dict[str, str], env: dict[str, str] | None) -> None:
    with pytest.raises(PolicyError) as caught:
        Encoder().body(["p"], env, secrets=secrets)
    for shown in (str(caught.value), repr(caught.value), repr(caught.value.args), repr(vars(caught.value))):
        assert SECRET not in shown
    assert SECRET.encode() not in pickle.dumps(caught.value)


def test_an_error_does_not_hold_a_secret_in_its_context_either() -> None:
    with pytest.raises(PolicyError, match="UTF-8") as caught:
        Encoder().body(["p"], secrets={"TOKEN": "\ud800" + SECRET})
    assert caught.value.__context__ is caught.value.__cause__ is None


def test_a_secret_is_in_the_body_and_in_nothing_that_is_shown_or_kept() -> None:
    encoder = Encoder()
    body = encoder.body(["p"], {"A": "1"}, secrets={"TOKEN": SECRET}, files={"f": b"data"})
    assert f"\0TOKEN={SECRET}\0".encode() in body.data
    assert SECRET not in repr(body) and SECRET not in repr(encoder._known)
    assert all(SECRET.encode() not in kept.data for kept in encoder._known.values())
    assert encoder.body(["p"], {"A": "1"}).envc == body.envc - 1


def test_a_secret_beats_what_is_inherited() -> None:
    body = Encoder(Environment(inherit=("TZ",)), host=HOST).body(["p"], secrets={"TZ": SECRET})
    assert b"Paris" not in body.data and f"TZ={SECRET}".encode() in body.data


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=4))
def test_any_mapping_is_an_environment_or_a_policy_error(env: dict[str, str]) -> None:
    try:
        found = Environment().of(env)
    except PolicyError as error:
        assert error.field.startswith("env") and error.remedy
    else:
        assert found == {**BASE, **env}


# ---- in a box ----


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_the_guest_has_what_the_policy_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "one")
    monkeypatch.setenv("LC_TIME", "de_DE")
    monkeypatch.setenv("PRIVATE", "no")
    policy = Policy.strict(inherit=["TERM", "LC_*"], path=["/usr/games"], deterministic=True)
    with Sandbox(policy) as sandbox:
        first = dict(line.split("=", 1) for line in sandbox.run(["env"], env={"MINE": "1"}).text.splitlines())
        monkeypatch.setenv("TERM", "two")  # it is read at each run
        second = dict(line.split("=", 1) for line in sandbox.run(["env"], env={"MINE": "1"}).text.splitlines())
    expected = {**BASE, **DETERMINISTIC, "PATH": f"/usr/games:{BASE['PATH']}", "LC_TIME": "de_DE", "MINE": "1", "TERM": "one"}
    assert first == expected and second == {**expected, "TERM": "two"}


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_secret_reaches_the_guest_and_nothing_else() -> None:
    with Sandbox() as sandbox:
        script = ["/bin/sh", "-c", 'test "$TOKEN" = ' + SECRET[:3] + '"' + SECRET[3:] + '" && exit 3']
        result = sandbox.run(script, secrets={"TOKEN": SECRET})
        assert result.exit_code == 3
        assert SECRET not in repr(result) and SECRET not in str(result.to_dict())
        with sandbox.spawn(["/bin/sh", "-c", "exit ${#TOKEN}"], secrets={"TOKEN": SECRET}) as process:
            assert process.wait().exit_code == len(SECRET)
            job = process._run.box._job  # type: ignore[attr-defined]
            assert job.body.data == b"" and SECRET not in repr(job)
        assert "TOKEN" not in sandbox.run(["/usr/bin/env"]).text
        assert SECRET not in repr(vars(sandbox))
    assert SECRET not in os.environ.values()
