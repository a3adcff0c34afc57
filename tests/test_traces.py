"""Spans: whose they are, what is exported of them, and the bytes of OTLP, read by the protocol's own classes."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from tests.support.collector import Seen, read
from tests.support.faultd import Faultd
from tests.support.tools import Hub, Programmable
from tools_app import engine
from tools_app.base import otlp
from tools_app.http import ApiClient, WebClient
from tools_app.sdk import traces
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError
from tools_app.sdk.traces import Place, Span, Tracer

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
LOCAL = Caller("local", "local:", "test", frozenset({"tools:execute"}))
NAMED = f"00-{TRACE}-{SPAN}-01"


class Spans(list[Span]):
    """What was exported."""

    @property
    def seen(self) -> list[Seen]:
        return read(otlp.encoded({"service.name": "toolhub"}, self))


@pytest.fixture
def spans() -> Iterator[Spans]:
    """Traces are on. Those that begin with f are not sampled."""
    exported = Spans()
    traces.use(Tracer(lambda trace_id: not trace_id.startswith("f"), exported.append))
    yield exported
    traces.use(None)


@pytest.fixture(scope="module")
def upstream() -> Iterator[Faultd]:
    with Faultd() as running:
        yield running


class TestWhatClientsName:
    @pytest.mark.parametrize(
        ("traceparent", "tracestate", "understood"),
        [
            (NAMED, None, Place(TRACE, SPAN)),
            (NAMED, "a=1,b=2", Place(TRACE, SPAN, "a=1,b=2")),
            (NAMED, "a=\r\n", Place(TRACE, SPAN)),
            (NAMED, "a" * 513, Place(TRACE, SPAN)),
            (NAMED, {"a": 1}, Place(TRACE, SPAN)),
            (f"01-{TRACE}-{SPAN}-01-more", None, Place(TRACE, SPAN)),
            (f"00-{TRACE}-{SPAN}-01-more", None, None),
            (f"ff-{TRACE}-{SPAN}-01", None, None),
            (NAMED.upper(), None, None),
            (f"{NAMED}\n", None, None),
            (f"00-{'0' * 32}-{SPAN}-01", None, None),
            (f"00-{TRACE}-{'0' * 16}-01", None, None),
            (None, "a=1", None),
            ([NAMED], None, None),
            (7, None, None),
        ],
    )
    def test_the_parent_is_read_as_w3c_says(self, traceparent: Any, tracestate: Any, understood: Place | None) -> None:
        assert traces.place(traceparent, tracestate) == understood

    @given(st.one_of(st.text(), st.integers(), st.none(), st.from_regex(r"[0-9a-f]{2}-[0-9a-f]+-[0-9a-f]+-.*")))
    def test_nonsense_is_ignored(self, traceparent: Any) -> None:
        found = traces.place(traceparent, traceparent)
        assert found is None or (len(found.trace_id), len(found.span_id)) == (32, 16)

    def test_our_sampler_decides_and_not_the_flag_of_the_client(self, spans: Spans) -> None:
        with traces.server("GET", Place("f" * 32, SPAN)) as left_out, traces.client("POST") as within:
            assert (left_out.is_sampled, within.is_sampled) == (False, False)
            # What follows knows the trace, and that it is not exported here.
            assert within.traceparent.startswith(f"00-{'f' * 32}-")
            assert within.traceparent.endswith("-00")
            assert traces.trace_id() == "f" * 32
        with traces.server("GET", Place(TRACE, SPAN)) as kept:
            assert kept.traceparent.endswith("-01")
        assert [span.trace_id for span in spans] == [TRACE]


class TestBytes:
    def test_a_span_is_what_the_protocol_says(self, spans: Spans) -> None:
        with traces.server("tools/call", Place(TRACE, SPAN, "a=1"), Place("1" * 32, SPAN)) as span:
            span.prefix = span.name
            span.set("server.port", 65_535)
            span.set("text", "é" * 100)
            span.resolve("tool", "echo")
            with traces.client("GET") as inner:
                inner.fail("503")
        child, parent = spans.seen
        assert replace(parent, nanoseconds=0) == Seen(
            service="toolhub",
            kind="SERVER",
            name="tools/call echo",
            trace_id=TRACE,
            span_id=span.span_id,
            parent_id=SPAN,
            attributes={"server.port": 65_535, "text": "é" * 100, "gen_ai.tool.name": "echo"},
            is_error=False,
            links=("1" * 32,),
            state="a=1",
            nanoseconds=0,
        )
        assert (child.parent_id, child.trace_id, child.is_error) == (parent.span_id, TRACE, True)
        assert child.attributes == {"error.type": "503"}
        assert 0 < child.nanoseconds < parent.nanoseconds

    @given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(0, 2**63 - 1))))
    def test_any_attribute_survives(self, attributes: dict[str, str | int]) -> None:
        span = Span(traces.INTERNAL, "x", None, is_sampled=True)
        span.attributes = dict(attributes)
        (seen,) = read(otlp.encoded({"service.name": "toolhub"}, [span]))
        assert seen.attributes == attributes


@pytest.mark.django_db(transaction=True)
class TestCalls:
    def test_a_call_without_a_request_has_a_span_of_its_own_and_calls_in_it_too(
        self, settings: Any, request: pytest.FixtureRequest, spans: Spans
    ) -> None:
        settings.TOOLHUB_PACKS = ("tests.support.packs.small", "tools_app.packs.finding")
        request.getfixturevalue("hub")
        calls = [{"name": "echo", "arguments": {"message": "hi"}}] * 2
        engine.call_sync("call_many", {"calls": calls}, LOCAL, door="command")
        *parts, whole = spans.seen
        assert (whole.name, whole.kind, whole.parent_id) == ("execute_tool call_many", "INTERNAL", "")
        assert [part.name for part in parts] == ["execute_tool echo"] * 2
        assert {part.parent_id for part in parts} == {whole.span_id}
        assert len({span.attributes["toolhub.call.id"] for span in (whole, *parts)}) == 3

    def test_a_failure_is_its_code_and_nothing_of_its_text(self, hub: Hub, spans: Spans) -> None:
        hub.add(Programmable("work").tool)
        with pytest.raises(ToolError):
            engine.call_sync("work", {"value": "hunter2"}, LOCAL, door="command")
        (span,) = spans.seen
        assert (span.is_error, span.attributes["error.type"]) == (True, "VALIDATION_ERROR")
        assert b"hunter2" not in otlp.encoded({"service.name": "x"}, spans)


class TestUpstreams:
    def test_an_upstream_that_operators_chose_hears_of_the_trace(self, upstream: Faultd, spans: Spans) -> None:
        async def ask() -> None:
            client = ApiClient(f"{upstream.url}/status:503", name="Acme").for_call("0" * 31 + "1", lambda: 30.0)
            with traces.server("POST", Place(TRACE, SPAN, "a=1")), contextlib.suppress(ToolError):
                await client.get("users", "ann", operation="read", params={"token": "hunter2"})
            await client.close()

        asyncio.run(ask())
        sent, around = spans.seen
        headers = upstream.requests[-1].headers
        assert headers["traceparent"] == f"00-{TRACE}-{sent.span_id}-01"
        assert headers["tracestate"] == "a=1"
        assert (sent.kind, sent.name, sent.parent_id, sent.is_error) == ("CLIENT", "GET", around.span_id, True)
        assert sent.attributes == {
            "http.request.method": "GET",
            "http.response.status_code": 503,
            "server.address": "127.0.0.1",
            "server.port": upstream.port,
            "error.type": "503",
        }

    def test_the_open_web_does_not_and_its_addresses_are_arguments(self, upstream: Faultd, spans: Spans) -> None:
        async def ask() -> None:
            client = WebClient(ports=frozenset({upstream.port}), allowed=lambda _: True)
            with traces.server("POST", Place(TRACE, SPAN, "a=1")):
                await client.get(f"{upstream.url}/ok/page", operation="read")
            await client.close()

        asyncio.run(ask())
        assert not {"traceparent", "tracestate"} & upstream.requests[-1].headers.keys()
        assert spans.seen[0].attributes == {"http.request.method": "GET", "http.response.status_code": 200}


class TestVariables:
    @pytest.mark.parametrize(
        ("variables", "share"),
        [
            ({}, None),
            ({"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "nonsense"}, None),
            ({"OTEL_TRACES_EXPORTER": "otlp"}, 1.0),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, 1.0),
            ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://x.example.org/v1/traces"}, 1.0),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"}, None),
            ({"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_SDK_DISABLED": "True"}, None),
            ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "always_off"}, 0.0),
            ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "parentbased_always_on"}, 1.0),
            ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio"}, 1.0),
            (
                {
                    "OTEL_TRACES_EXPORTER": "otlp",
                    "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
                    "OTEL_TRACES_SAMPLER_ARG": "0.25",
                },
                0.25,
            ),
        ],
    )
    def test_traces_are_on_if_an_exporter_or_its_address_is_set(
        self, variables: dict[str, str], share: float | None
    ) -> None:
        assert otlp.ratio(variables) == share

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_TRACES_EXPORTER", "otlp,console"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://collector"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_TRACES_SAMPLER_ARG", "2"),
            ("OTEL_TRACES_SAMPLER_ARG", "half"),
            ("OTEL_TRACES_SAMPLER_ARG", "nan"),
        ],
    )
    def test_a_wrong_one_is_named(self, name: str, value: str) -> None:
        on = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio"}
        with pytest.raises(ImproperlyConfigured, match=f"^{name}: "):
            otlp.ratio({**on, name: value})

    def test_another_version_of_the_sdk_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        needed = re.findall(r'"(opentelemetry-(?:sdk|exporter)[^>]*)>=([0-9.]+)', Path("pyproject.toml").read_text())
        assert needed == [(package, otlp._VERSION) for package in otlp._PACKAGES]
        about = tmp_path / "opentelemetry_sdk-1.30.0.dist-info" / "METADATA"
        about.parent.mkdir()
        about.write_text("Metadata-Version: 2.1\nName: opentelemetry-sdk\nVersion: 1.30.0\n")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(
            ImproperlyConfigured, match=r"traces need opentelemetry-sdk 1\.45, and 1\.30\.0 is installed"
        ):
            otlp.ratio({"OTEL_TRACES_EXPORTER": "otlp"})

    def test_what_only_opentelemetry_refuses_stops_the_hubs_own_site_and_no_other_project(
        self, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")
        otlp.start({"OTEL_TRACES_EXPORTER": "otlp"})
        otlp.stop()
        assert "Traces are off: max_export_batch_size must be" in caplog.text
        settings.SETTINGS_MODULE = "toolhub.settings"
        for _ in range(2):
            with pytest.raises(ValueError, match="max_queue_size"):
                otlp.start({"OTEL_TRACES_EXPORTER": "otlp"})
