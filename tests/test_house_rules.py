"""Every rule catches a bad sample and lets a good one pass; what would break a rule here is split in two."""

import subprocess
from pathlib import Path

import pytest

from scripts.house_rules import PLAIN, RULES, check, main

ALLOW = "house: " + "allow"
KEY = "thub_" + "q7Zp2Xv9Lm4Rt8Wc1Ny6Bd3Kf5"

BAD = [
    ("mark-safe", "a.py", "mark_safe(f'<b>{name}</b>')"),
    ("mark-safe", "a.py", "safestring.SafeString(name)"),
    ("mark-safe", "a.py", "from django.utils.safestring import mark_safe as ok\nok(name)"),
    ("mark-safe", "a.py", "@mark_safe\ndef cell(self): ..."),
    ("mark-safe", "a.html", "<b>{{ name|safe }}</b>"),
    ("mark-safe", "a.html", "{% autoescape off %}"),
    ("lookup", "a.py", "Tool.objects.filter(**query)"),
    ("lookup", "a.py", "tools.exclude(enabled=True, **query)"),
    ("lookup", "a.py", "tools.get(**{field: 1})"),
    ("lookup", "a.py", "tools.annotate(**{'a': 1, **more})"),
    ("lookup", "a.py", "Q(**query)"),
    ("eval", "a.py", "eval(text)"),
    ("eval", "a.py", "exec(text)"),
    ("eval", "a.py", "compile(text, 'x', 'exec')"),
    ("deserialize", "a.py", "pickle.loads(data)"),
    ("deserialize", "a.py", "import pickle as p\np.load(file)"),
    ("deserialize", "a.py", "from marshal import loads as read\nread(data)"),
    ("deserialize", "a.py", "yaml.load(text)"),
    ("verify", "a.py", "httpx.get(url, verify=False)"),
    ("redirects", "a.py", "AsyncClient(follow_redirects=True)"),
    ("shell", "a.py", "subprocess.run(line, shell=True)"),
    ("print", "tools_app/engine/call.py", "print(result)"),
    ("bare-except", "a.py", "try:\n    go()\nexcept:\n    pass"),
    ("secret", "a.txt", "-----BEGIN RSA " + "PRIVATE KEY-----"),
    ("secret", "tests/a.txt", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("secret", "tests/a.txt", "ghp_" + "a1B2" * 9),
    ("secret", "tests/a.txt", KEY),
    ("secret", "a.py", "redmine_api_key = '8c1f0a97b2d34e56'"),
    ("secret", "a.json", '{"password": "tr0ub4dor&3xyz"}'),
    ("secret", ".env.example", "SECRET_KEY=x0f9k2m1v8b7n6"),
    ("path", "a.md", "start /home" + "/alice/toolhub/run"),
    ("path", "tests/a.py", "open('/root" + "/notes')"),
    ("path", "a.md", r"C:\Users" + r"\alice"),
    ("path", "tools_app/a.py", "open('/tmp" + "/x')"),
    ("registry", "a.lock", "--index-url https://pypi.org" + "/simple"),
    ("registry", "a.lock", "https://files.python" + "hosted.org/packages/x.whl"),
    ("registry", "a.json", '"https://registry.npmjs' + '.org/left-pad"'),
    ("foreign-name", "README.md", "run `pip install " + "toolhub`"),
    ("foreign-name", "docs/a.md", "pip install --upgrade " + "toolhub[postgres]==1.0"),
    ("foreign-name", "a.py", "'pip install pytest " + "toolhub'"),
    ("foreign-name", "docs/a.md", "uvx --from x " + "toolhub, then"),
    ("foreign-name", "docs/a.md", "uv tool install " + "toolhub"),
    ("todo", "a.css", "/* TO" + "DO: darker */"),
    ("plain-words", "docs/a.md", "The key stands in the list."),
    ("plain-words", "docs/decisions/a.md", "The name stood there."),
    ("plain-words", "README.md", "What may stand in its place"),
    ("plain-words", "CONTRIBUTING.md", "Mend the file."),
    ("plain-words", "SECURITY.md", "It was mended."),
    ("plain-words", "AGENTS.md", "Whoever calls it"),
    ("plain-words", "docs/a.md", "nobody waits for it"),
    ("plain-words", "docs/a.md", "what somebody wrote"),
    ("plain-words", "docs/a.md", "The call goes on."),
    ("plain-words", "docs/a.md", "to let it go on"),
    ("plain-words", "docs/a.md", "so many requests"),
    ("plain-words", "docs/a.md", "works for so long"),
    ("plain-words", "docs/a.md", "One key wants a look."),
    ("plain-words", "docs/a.md", "nothing is called resolved"),
    ("plain-words", "docs/a.md", "a large one is let in, and"),
    ("plain-words", "docs/a.md", "`*` lets in all names"),
    ("plain-words", "docs/a.md", "the filters are taken off"),
    ("plain-words", "docs/a.md", "## Who may what"),
    ("plain-words", "docs/a.md", "its calls and what it may"),
    ("plain-words", "docs/a.md", "what a key may, and"),
    ("syntax", "a.py", "def broken(:"),
    ("waiver", "a.py", f"x = 1  # {ALLOW} eval – nothing here breaks it"),
    ("waiver", "a.py", f"x = 1  # {ALLOW} everything – no such rule"),
]

GOOD = [
    ("mark-safe", "a.py", "mark_safe('<b>new</b>')\nformat_html('<b>{}</b>', name)"),
    ("mark-safe", "a.html", "<b>{{ name|safe_name }}</b> {{ name }}"),
    ("lookup", "a.py", "tools.filter(**{'name__in': names})\ntools.create(**fields)"),
    ("eval", "a.py", "re.compile(text)\nmodel.eval()"),
    ("deserialize", "a.py", "json.loads(data)\npickle.dumps(data)\nyaml.safe_load(text)"),
    ("verify", "a.py", "httpx.get(url, verify=context)\nAsyncClient(verify=True)"),
    ("redirects", "a.py", "AsyncClient(follow_redirects=False)"),
    ("shell", "a.py", "subprocess.run(['ls'], shell=False)"),
    ("print", "tools_app/management/commands/doctor.py", "print(result)"),
    ("print", "tests/test_a.py", "print(result)"),
    ("bare-except", "a.py", "try:\n    go()\nexcept ValueError:\n    pass"),
    ("secret", "a.py", "token = 'TOOLHUB_ENCRYPTION_KEY'\npassword = '<your password>'\ntoken = 'short1'"),
    ("secret", "a.py", "key = 'thub_" + "aaaaaaaaaaaaaaaaaaaaaaaaaaaa'"),
    ("secret", "tests/test_a.py", "password = 'correct-horse-9'"),
    ("secret", ".env.example", "REDMINE_API_KEY=\nSECRET_KEY=${GENERATED_BY_US}"),
    ("path", "a.md", "https://example.org/home/alice ~/toolhub $HOME/tmp/x /path/to/toolhub"),
    ("path", "tests/test_a.py", "open('/tmp" + "/x')"),
    ("registry", "a.md", "https://pypi.org/project/django/"),
    ("foreign-name", "docs/a.md", "pip install dist/toolhub-0.1.0-py3-none-any.whl, then toolhub serve"),
    ("foreign-name", "docs/a.md", "pip install pytest; toolhub serve"),
    ("todo", "a.py", "todos = 1  # todo lists are a tool's data"),
    (
        "plain-words",
        "docs/a.md",
        "MCP stands for Model Context Protocol. A standalone stand-in; outstanding, standard.",
    ),
    ("plain-words", "docs/a.md", "The log goes on the disk. Amend it. What it may do. It lets in-flight calls finish."),
    ("plain-words", "docs/a.md", "so long as it runs; as many as that"),
    ("plain-words", "docs/openapi.json", "Whoever calls it"),
    ("plain-words", "CHANGELOG.md", "Whoever calls it"),
    ("plain-words", "docs/a.md", f"Whoever <!-- {ALLOW} plain-words – quoted -->"),
    ("waiver", "a.py", f"eval(text)  # {ALLOW} eval – the console of the operator"),
    ("waiver", "a.html", "{{ chart|safe }} {# " + ALLOW + " mark-safe - made by us #}"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BAD)
def test_a_bad_sample_breaks_its_rule_and_no_other(rule, path, text):
    assert {finding.rule for finding in check(path, text)} == {rule}


@pytest.mark.parametrize(("rule", "path", "text"), GOOD)
def test_a_good_sample_passes(rule, path, text):
    assert check(path, text) == []


@pytest.mark.parametrize("waiver", [f"{ALLOW} eval", f"{ALLOW} shell – the wrong rule"])
def test_a_waiver_without_reason_or_for_another_rule_waives_nothing(waiver):
    assert [finding.rule for finding in check("a.py", f"eval(text)  # {waiver}")] == ["eval", "waiver"]


@pytest.mark.parametrize("samples", [BAD, GOOD], ids=["bad", "good"])
def test_every_rule_has_samples(samples):
    assert {rule for rule, _, _ in samples} | {"syntax"} == set(RULES)


def test_paths_that_are_held_to_plain_words_exist():
    root = Path(__file__).resolve().parent.parent
    assert [path for path in PLAIN if not (root / path).exists()] == []


def test_a_finding_says_where_and_why():
    (finding,) = check("toolhub/a.py", "x = 1\n\neval(text)\n")

    assert str(finding) == "toolhub/a.py:3: eval: " + RULES["eval"]


def test_reads_what_git_knows_and_leaves_out_what_it_ignores(tmp_path: Path, capsys):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    (tmp_path / "ignored.py").write_text("eval(text)\n")
    (tmp_path / "image.png").write_bytes(b"\0" + KEY.encode())
    assert main(tmp_path) == 0

    (tmp_path / "new file.py").write_text("eval(text)\n")
    assert main(tmp_path) == 1
    assert capsys.readouterr().out == f"new file.py:1: eval: {RULES['eval']}\n"
