"""Which variables a child process can be given."""

from __future__ import annotations

import pytest

from tools_app.sdk.child_environment import refusal_of


@pytest.mark.parametrize(
    "name",
    [
        *("NODE_OPTIONS", "node_options", "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "BASH_ENV"),
        *("PYTHONSTARTUP", "PYTHONHOME", "PYTHONWARNINGS", "ENV", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "PATH"),
        *("GIT_SSH_COMMAND", "npm_config_registry", "UV_INDEX_URL", "PIP_INDEX_URL", "JAVA_TOOL_OPTIONS", "HOME"),
        *("TOOLHUB_SECRET_KEY", "toolhub_home", "BASH_FUNC_ls%%", "LUA_INIT", "DOTNET_STARTUP_HOOKS", "GCONV_PATH"),
        *("", "1A", "A=B", "A B", "A\x00", "A\n", "Ä", "A" * 129),
    ],
)
def test_a_variable_that_can_run_code_or_has_no_valid_name_is_refused(name: str) -> None:
    assert refusal_of(name)


@pytest.mark.parametrize(
    "name",
    ["GITHUB_PERSONAL_ACCESS_TOKEN", "API_KEY", "_x", "ENVIRONMENT", "RUST_LOG", "GIT_AUTHOR_NAME", "PYTHONUNBUFFERED"],
)
def test_credentials_and_plain_options_are_not(name: str) -> None:
    assert refusal_of(name) == ""
