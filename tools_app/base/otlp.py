"""Exports spans to a collector, by OTLP over HTTP, as OpenTelemetry's own variables say (docs/traces.md).

Its SDK batches, sends and retries, in a thread of its own. Spans (`sdk/traces.py`) and their bytes are ours: those of
the SDK take four times as long (decision 101). Nothing of it is imported while traces are off.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from tools_app.base import conf
from tools_app.sdk import traces
from tools_app.sdk.traces import Span, Tracer

log = logging.getLogger("tools_app.traces")

# How long the end of a process waits for the last spans.
STOP_SECONDS: Final = 2.0
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SAMPLERS: Final = frozenset({"always_on", "always_off", "traceidratio"})
_EXTRA: Final = "opentelemetry.exporter.otlp.proto.http"
_PACKAGES: Final = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
# As in pyproject.toml: private names of theirs are used.
_VERSION: Final = "1.45"


def ratio(variables: Mapping[str, str]) -> float | None:
    """The share of traces that is exported; None: traces are off.

    Raises:
        ImproperlyConfigured: names the variable that is wrong.
    """
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    exporter = variables.get("OTEL_TRACES_EXPORTER", "").strip()
    endpoint = next((name for name in _ENDPOINTS if variables.get(name, "").strip()), "")
    if exporter == "none" or not (exporter or endpoint):
        return None
    if exporter not in ("", "otlp"):
        raise ImproperlyConfigured(f"OTEL_TRACES_EXPORTER: expected otlp or none, not {exporter!r}")
    if endpoint:
        url = urlsplit(variables[endpoint].strip())
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ImproperlyConfigured(f"{endpoint}: expected a URL like http://127.0.0.1:4318")
    protocol = next((name for name in _PROTOCOLS if variables.get(name, "").strip()), "")
    if protocol and variables[protocol].strip() != "http/protobuf":
        raise ImproperlyConfigured(f"{protocol}: expected http/protobuf, which is all that this hub speaks")
    if not _is_installed():
        name = "OTEL_TRACES_EXPORTER" if exporter else endpoint
        raise ImproperlyConfigured(
            f"{name}: traces need OpenTelemetry's SDK, which is not installed; "
            "install the wheel with its extra `traces` (docs/traces.md), or unset the variable"
        )
    for package in _PACKAGES:
        if not (version := importlib.metadata.version(package)).startswith(f"{_VERSION}."):
            name = "OTEL_TRACES_EXPORTER" if exporter else endpoint
            raise ImproperlyConfigured(f"{name}: traces need {package} {_VERSION}, and {version} is installed")
    return _sampled(variables)


def _sampled(variables: Mapping[str, str]) -> float:
    sampler = variables.get("OTEL_TRACES_SAMPLER", "").strip() or "always_on"
    kind = sampler.removeprefix("parentbased_")
    if kind not in _SAMPLERS:
        raise ImproperlyConfigured(
            f"OTEL_TRACES_SAMPLER: expected one of {', '.join(sorted(_SAMPLERS))}, or one of them after parentbased_"
        )
    if kind != "traceidratio":
        return float(kind == "always_on")
    text = variables.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    try:
        share = float(text or 1)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise ImproperlyConfigured(f"OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1, not {text[:40]!r}")
    return share


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec(_EXTRA) is not None
    except ModuleNotFoundError:  # of a package around it
        return False


# ---- the exporter of this process, while there is a hub in it

_lock = threading.Lock()
_users = 0
_stop: Callable[[float], None] | None = None


def start(variables: Mapping[str, str]) -> None:
    """Begin to make and export spans, if the variables say so. `stop` follows."""
    global _users, _stop
    with _lock:
        _users += 1
        if _users > 1:
            return
        try:
            share = ratio(variables)
            if share is not None:
                _stop = _begin(share)
        except Exception as error:
            if str(getattr(settings, "SETTINGS_MODULE", "")).startswith("toolhub."):
                _users -= 1
                raise
            # In another project, the variables may be meant for others, and OpenTelemetry may be another.
            log.warning("Traces are off: %s", error)


def stop(seconds: float = STOP_SECONDS) -> None:
    """Export what is left, within that time."""
    global _users, _stop
    with _lock:
        _users -= 1
        if _users or _stop is None:
            return
        end, _stop = _stop, None
        traces.use(None)
    end(min(seconds, STOP_SECONDS))


def _begin(share: float) -> Callable[[float], None]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

    resource = dict(Resource.create({"service.version": conf.value("TOOLHUB_VERSION")}).attributes)
    if str(resource.get("service.name", "unknown_service")).startswith("unknown_service"):
        resource["service.name"] = "toolhub"

    class Exporter(OTLPSpanExporter):
        """Sends our spans, and logs a failure once: collectors are restarted, and traces are not worth a noise."""

        is_failing = False

        def export(self, spans: Sequence[Any]) -> SpanExportResult:
            outcome = self._client.export(encoded(resource, spans))
            if outcome.success:
                if self.is_failing:
                    log.info("Traces are exported again")
                self.is_failing = False
                return SpanExportResult.SUCCESS
            if not self.is_failing and not self._shutdown:
                reason = f"HTTP {outcome.status_code}" if outcome.status_code else type(outcome.error).__name__
                log.warning("Traces cannot be exported (%s): dropped until the collector answers", reason)
            self.is_failing = True
            return SpanExportResult.FAILURE

    exporter = Exporter()
    _ = exporter._client.export  # Fails here rather than at each export.
    processor = BatchSpanProcessor(exporter)
    # As the SDK's sampler of this name: hubs with the same ratio export the same traces.
    bound = round(share * 2**64)
    emit: Callable[[Any], object] = processor._batch_processor.emit
    traces.use(Tracer(lambda trace_id: int(trace_id[16:], 16) < bound, emit))

    def end(seconds: float) -> None:
        # A thread, since the SDK waits for up to 30 seconds.
        last = threading.Thread(target=processor.shutdown, name="toolhub-traces", daemon=True)
        last.start()
        last.join(seconds)
        if last.is_alive() and not exporter.is_failing:
            log.warning("The last traces were not exported: the collector does not answer")

    return end


# ---- bytes: opentelemetry/proto/trace/v1/trace.proto

_FIXED: Final = struct.Struct("<BQBQ")
_IS_REMOTE: Final = b"\x85\x01\x01\x03\x00\x00"  # flags: sampled, and the parent is of another process
_IS_LOCAL: Final = b"\x85\x01\x01\x01\x00\x00"
_ERROR: Final = b"\x7a\x02\x18\x02"


def encoded(resource: Mapping[str, Any], spans: Sequence[Span]) -> bytes:
    """An ExportTraceServiceRequest."""
    of_resource = b"".join(_field(0x0A, _attribute(name, _plain(value))) for name, value in resource.items())
    scope = _field(0x0A, _text(0x0A, "toolhub"))
    of_scope = scope + b"".join(_field(0x12, _span(span)) for span in spans)
    return _field(0x0A, _field(0x0A, of_resource) + _field(0x12, of_scope))


def _span(span: Span) -> bytes:
    parts = [
        b"\x0a\x10",
        bytes.fromhex(span.trace_id),
        b"\x12\x08",
        bytes.fromhex(span.span_id),
        _text(0x2A, span.name),
        b"\x30",
        bytes((span.kind,)),
        _FIXED.pack(0x39, span.started_at, 0x41, span.ended_at),
        _IS_REMOTE if span.kind == traces.SERVER and span.parent_id else _IS_LOCAL,
    ]
    if span.parent_id:
        parts += (b"\x22\x08", bytes.fromhex(span.parent_id))
    if span.state:
        parts.append(_text(0x1A, span.state))
    parts += [_field(0x4A, _attribute(name, value)) for name, value in span.attributes.items()]
    if span.error_type:
        parts += (_field(0x4A, _attribute("error.type", span.error_type)), _ERROR)
    if span.link is not None:
        ids = b"\x0a\x10" + bytes.fromhex(span.link.trace_id) + b"\x12\x08" + bytes.fromhex(span.link.span_id)
        parts.append(_field(0x6A, ids))
    return b"".join(parts)


@lru_cache(maxsize=4096)
def _attribute(name: str, value: traces.Value) -> bytes:
    """A KeyValue. Most have been there before."""
    content = b"\x18" + _varint(value) if isinstance(value, int) else _text(0x0A, value)
    return _text(0x0A, name) + _field(0x12, content)


def _plain(value: object) -> traces.Value:
    return value if isinstance(value, str | int) else str(value)


def _text(tag: int, text: str) -> bytes:
    return _field(tag, text.encode(errors="replace"))


def _field(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes((tag, size)) + content if size < 128 else bytes((tag,)) + _varint(size) + content


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    digits.append(number)
    return bytes(digits)
