"""The text form of an answer is written only for channels that send it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.support.tools import Hub
from tools_app import engine
from tools_app.models import Call
from tools_app.sdk.context import Caller
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack, TextForm


class Titles:
    """A pack whose answers are text of three lines, and what was written and run."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.runs = 0
        self.pack = Pack("titles", text_form=TextForm("markdown", self.write))

        @self.pack.tool(hints=Hints(read_only=True, open_world=False), cache_seconds=60)
        def title(text: str) -> dict[str, str]:
            """Make a title."""
            self.runs += 1
            return {"title": text}

    def write(self, value: dict[str, str]) -> str:
        self.written.append(value)
        return f"# {value['title']}\n\n"


@pytest.fixture
def titles(hub: Hub) -> Titles:
    made = Titles()
    hub.add(*made.pack.tools)
    return made


def call(caller: Caller, text: str = "hi", **options: Any) -> engine.Result:
    return engine.call_sync("title", {"text": text}, caller, door="code", options=engine.Options(**options))


def test_what_is_sent_is_what_is_measured(titles: Titles, alice: Caller) -> None:
    for as_value, sent in ((True, '{"title":"hi"}'), (False, "# hi\n\n")):
        answer = call(alice, as_value=as_value).answer
        assert (answer.value, answer.text, answer.size) == ({"title": "hi"}, sent, len(sent))
        row = Call.objects.latest("started_at")
        assert (row.result_bytes, row.result_hash) == (len(sent), hashlib.sha256(sent.encode()).hexdigest())
    assert titles.written == [{"title": "hi"}]


def test_the_cache_keeps_both_forms_apart(titles: Titles, alice: Caller) -> None:
    texts = [call(alice, as_value=as_value).answer.text for as_value in (True, False, True, False)]
    assert texts == ['{"title":"hi"}', "# hi\n\n"] * 2
    assert titles.runs == 2


def test_the_budget_is_that_of_the_form_that_is_sent(titles: Titles, alice: Caller) -> None:
    text = "x" * 2_990  # at most 3,000 bytes as text, more as JSON
    assert call(alice, text, answer_tokens=1_000).answer.value == {"title": text}
    assert "outline" in call(alice, text, answer_tokens=1_000, as_value=True).answer.value


def test_a_replay_has_the_value_for_every_channel(titles: Titles, alice: Caller) -> None:
    first, again, as_text = (call(alice, idempotency_key="k", as_value=form).answer for form in (True, True, False))
    assert first == again
    assert as_text.value == first.value
    assert as_text.text == '{"title":"hi"}', "the code that writes the text did not run"
    assert titles.runs == 1
