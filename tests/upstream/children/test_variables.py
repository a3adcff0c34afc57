"""Which variables of a hub its children inherit, and which no connection may give them."""

from __future__ import annotations

import pytest

from tools_app.sdk.child_environment import inherited, refused_variables


@pytest.mark.parametrize(
    "name",
    [
        "NODE_OPTIONS",
        "LD_PRELOAD",
        "ld_library_path",
        "DYLD_INSERT_LIBRARIES",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "BASH_ENV",
        "ENV",
        "PERL5OPT",
        "PERL5LIB",
        "RUBYOPT",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "PATH",
        "SHELL",
        "IFS",
        "npm_config_script_shell",
        "OPENSSL_CONF",
        "SSLKEYLOGFILE",
        "DOTNET_STARTUP_HOOKS",
        "TOOLHUB_CHILD",
        "LD_PRELOAD\n",
        "",
        "A=B",
        "1A",
        "É",
        "A\0B",
        "A" * 129,
    ],
)
def test_refuses(name: str) -> None:
    assert refused_variables(["FINE", name]) == [name]


def test_takes_what_servers_need() -> None:
    names = [
        "GITHUB_PERSONAL_ACCESS_TOKEN",
        "API_KEY",
        "OPENAI_API_KEY",
        "NOTION_TOKEN",
        "PGPASSWORD",
        "DATABASE_URL",
        "ENVIRONMENT",
        "LDAP_URL",
        "GITLAB_API_URL",
        "NODE_ENV",
        "PYTHONUNBUFFERED",
        "https_proxy",
        "NODE_EXTRA_CA_CERTS",
        "FASTMCP_LOG_LEVEL",
        "BROWSERBASE_API_KEY",
        "GIT_AUTHOR_NAME",
        "GIT_TOKEN",
        "_X",
    ]
    assert refused_variables(names) == []


def test_only_named_variables_are_inherited() -> None:
    environment = dict.fromkeys(
        ["PATH", "LC_ALL", "HTTPS_PROXY", "no_proxy", "NODE_EXTRA_CA_CERTS", "SECRET_KEY", "PATHS", "XPATH", "path"],
        "x",
    )
    assert set(inherited(environment)) == {"PATH", "LC_ALL", "HTTPS_PROXY", "no_proxy", "NODE_EXTRA_CA_CERTS"}
