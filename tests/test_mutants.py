"""The gate behind `make mutants`; mutmut itself runs there, and not in these tests."""

import pytest

from scripts import mutants

MODULES = ["tools_app/sdk/errors.py", "tools_app/sdk/policies.py"]


def results(errors: str, policies: str) -> dict[str, str]:
    """What became of each mutant: `k` killed, `t` timeout, `s` survived, `n` no tests."""
    words = {"k": "killed", "t": "timeout", "s": "survived", "n": "no tests"}
    named = {"tools_app.sdk.errors.x_make": errors, "tools_app.sdk.policies.xǁBackoffǁwait": policies}
    return {f"{name}__mutmut_{n}": words[sign] for name, signs in named.items() for n, sign in enumerate(signs)}


@pytest.mark.parametrize(
    ("errors", "policies", "enough"),
    [
        ("kkkk", "kkkks", True),
        ("kkkk", "tttts", True),
        ("kkkkkkkkkkkkkkkk", "kkkss", False),
        ("kkks", "kkkk", False),
        ("kkkkn", "kkkk", True),
        ("kkkn", "kkkk", False),
        ("kkkk", "", False),
    ],
)
def test_each_module_must_have_its_share_killed(errors, policies, enough):
    assert mutants.judge(results(errors, policies), MODULES) is enough


def test_survivors_are_named(capsys):
    mutants.judge(results("kkkks", "kkkkk"), MODULES)
    told = capsys.readouterr().out
    assert "tools_app.sdk.errors.x_make__mutmut_4  (survived)" in told
    assert "__mutmut_3" not in told
