"""Precedence: the longest path wins; at equal paths hidden, protected, writable, readable; mandatory denies beat every allow."""

from __future__ import annotations

from itertools import permutations

import pytest

from sandbox_native import Policy, ReadPolicy
from sandbox_native.rules import OWN, SYSTEM, Access, Rule, deciding, declared, effective

H, P, W, R = Access.HIDDEN, Access.PROTECTED, Access.WRITABLE, Access.READABLE


def rules(*pairs: tuple[str, Access]) -> list[Rule]:
    return [Rule(inside=inside, access=access) for inside, access in pairs]


def test_nesting_means_what_it_says_in_any_order() -> None:
    for order in permutations([("/w", R), ("/w/gen", W), ("/w/gen/lock", P), ("/w/gen/lock/out", W)]):
        found = rules(*order)
        assert effective(found, "/w/a") is R
        assert effective(found, "/w/gen") is effective(found, "/w/gen/a/b") is W
        assert effective(found, "/w/gen/lock/a") is P
        assert effective(found, "/w/gen/lock/out/a") is W


@pytest.mark.parametrize(("stronger", "weaker"), [(H, P), (P, W), (W, R), (H, W), (H, R), (P, R)])
def test_at_equal_paths_the_stronger_one_wins(stronger: Access, weaker: Access) -> None:
    for found in (rules(("/w", stronger), ("/w", weaker)), rules(("/w", weaker), ("/w", stronger))):
        assert effective(found, "/w/a") is stronger


def test_paths_are_compared_by_component() -> None:
    found = rules(("/data/ws/1", W), ("/", R))
    assert effective(found, "/data/ws/1/x") is W
    assert effective(found, "/data/ws/10") is R
    assert effective(rules(("/data/ws/1", W)), "/data/ws/10") is None


def test_a_mandatory_deny_lifts_no_allow_and_no_hiding() -> None:
    deny = Rule(inside="/w/.git/hooks", access=P, mandatory=True)
    found = [*rules(("/w", W), ("/w/.git/hooks/mine", W)), deny]
    assert effective(found, "/w/.git/hooks/mine/x") is P
    assert deciding(found, "/w/.git/hooks/mine/x") is deny
    assert effective([*found, *rules(("/w/.git/hooks/mine", H))], "/w/.git/hooks/mine") is H
    assert effective([*found, *rules(("/w/.git", H))], "/w/.git/config") is H
    assert effective([deny, *rules(("/w", W), ("/w/.git/hooks/mine", R))], "/w/.git/hooks/mine") is R


def test_what_a_policy_declares_names_its_field() -> None:
    policy = Policy.strict(
        readable=["/r"], writable=["/w", ("/x", "/w/x")], protected=["/w/lock"], hidden=["/w/x/secret", "/usr/share"]
    )
    found = declared(policy)
    decided = {path: deciding(found, path) for path in ("/r/a", "/w/x/a", "/w/lock/a", "/w/x/secret/a", "/usr/share/a")}
    assert {path: (rule.field, rule.access) for path, rule in decided.items() if rule is not None} == {
        "/r/a": ("Policy.readable[0]", R),
        "/w/x/a": ("Policy.writable[1]", W),
        "/w/lock/a": ("Policy.protected[0]", P),
        "/w/x/secret/a": ("Policy.hidden[0]", H),
        "/usr/share/a": ("Policy.hidden[1]", H),
    }
    assert effective(found, "/srv") is None


def test_every_box_has_the_system_and_places_of_its_own() -> None:
    found = declared(Policy.strict())
    assert {effective(found, path + "/x") for path in SYSTEM} == {R}
    assert {effective(found, path + "/x") for path in OWN} == {W}
    bare = declared(Policy.strict(system=False))
    assert {effective(bare, path + "/x") for path in SYSTEM} == {None}
    assert effective(declared(Policy.strict(read=ReadPolicy.HOST)), "/srv") is R
