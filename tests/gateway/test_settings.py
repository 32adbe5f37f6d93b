"""The gateway's settings: what a file and variables say, and every mistake of them at once."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.gateway.settings.sections import GatewaySettings, PipelineSettings
from goldspan.collector_processor.gateway.settings.settings_file import load_settings, unknown_variables, variables
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.field_types import ListenAddress
from goldspan.collector_processor.serving.http_server import RequestLimits
from goldspan.scoring.errors import FileError, SettingsError
from goldspan.scoring.metrics.schema import ToolParameterSchema

SOMEWHERE = {"GOLDSPAN_EXPORT_ENDPOINT": "http://collector:4318"}
EXPORT = "export: {endpoint: 'http://collector:4318'}\n"


def loaded(tmp_path: Path, text: str, **environ: str) -> GatewaySettings:
    path = tmp_path / "goldspan.yaml"
    path.write_text(text, "utf-8")
    return load_settings(path, environ)


def mistakes(tmp_path: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(FileError) as refused:
        loaded(tmp_path, text, **environ)
    return [str(mistake).replace(f"{tmp_path}/", "") for mistake in refused.value.mistakes]


def test_an_endpoint_is_all_that_must_be_said() -> None:
    settings = load_settings(None, SOMEWHERE)
    assert (str(settings.receivers.grpc), str(settings.receivers.http)) == ("127.0.0.1:4317", "127.0.0.1:4318")
    assert str(settings.admin.listen) == "127.0.0.1:4319"
    assert settings.journal.enabled
    assert settings.limits == RequestLimits()


def test_without_it_nothing_starts() -> None:
    with pytest.raises(FileError, match=r"export: `endpoint` is missing|`export` is missing"):
        load_settings(None, {})


def test_every_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    text = """\
golden: x
receivers:
  grpc: 0.0.0.0:99999
  http: localhost:4318
  tokens:
    - {env: A, file: b}
    - nonsense
  forward_headers: [content-type, X-Tenant]
export:
  protocol: grpcs
  compresion: gzip
  headers: {a: 5, b: {env: X}, c: {enc: x}}
  timeout: 5 apples
limits: {max_connections: 0, max_request_bytes: 20MiB}
admin: 5
log: {level: loud}
listen: x
journal: {enabled: maybe, folder: 7}
"""
    assert mistakes(tmp_path, text, GOLDSPAN_LIMITS_IDLE_TIMEOUT="soon") == [
        'environment: GOLDSPAN_LIMITS_IDLE_TIMEOUT: found "soon", '
        "expected seconds, as a number or as 500ms, 30s, 5m, 1h",
        "goldspan.yaml:1: golden: unknown field: did you mean `goldens`?",
        'goldspan.yaml:3: receivers.grpc: found "0.0.0.0:99999", expected host:port, such as 127.0.0.1:4318',
        "goldspan.yaml:6: receivers.tokens[0]: expected one of `env`, the name of a variable, and `file`",
        "goldspan.yaml:7: receivers.tokens[1]: found str, expected a mapping",
        'goldspan.yaml:8: receivers.forward_headers[0]: found "content-type": '
        "this header belongs to one connection and is never forwarded",
        "goldspan.yaml:9: export: `endpoint` is missing: A URL such as https://collector:4318; "
        "for HTTP `/v1/traces` and so on are added. `https` is TLS, for gRPC too.",
        'goldspan.yaml:10: export.protocol: found "grpcs", expected `http/protobuf` or `grpc`',
        "goldspan.yaml:11: export.compresion: unknown field: did you mean `compression`?",
        "goldspan.yaml:12: export.headers.a: found int, expected text",
        "goldspan.yaml:12: export.headers.c.enc: unknown field: did you mean `env`?",
        'goldspan.yaml:13: export.timeout: found "5 apples", expected seconds, as a number or as 500ms, 30s, 5m, 1h',
        "goldspan.yaml:14: limits.max_connections: found 0, expected 1 or more",
        "goldspan.yaml:15: admin: found 5, expected a mapping",
        'goldspan.yaml:16: log.level: found "loud", expected `debug`, `info`, `warning` or `error`',
        "goldspan.yaml:17: listen: unknown field here: did you mean `admin.listen`?",
        'goldspan.yaml:18: journal.enabled: found "maybe", expected true or false',
        "goldspan.yaml:18: journal.folder: found 7, expected the path of a file",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "found [], expected a mapping"),
        ("log: {level: info}", "`export` is missing: expected `export: {endpoint: ...}`"),
        (
            EXPORT + "scoring: {goldens: g.yaml}",
            "unknown field here: did you mean `goldens` at the top of the settings?",
        ),
        ("a: {", "YAML"),
        ("export: {endpoint: 'http://collector'}\nexport: {}\n", "twice"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert any(message in one for one in mistakes(tmp_path, text))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(FileError, match=r"absent\.yaml: there is no such file"):
        load_settings(Path("absent.yaml"), SOMEWHERE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EXPORT + "receivers: {http: '0.0.0.0:4318'}", "anybody may send"),
        (EXPORT + "receivers: {grpc: null, http: null}", "expected an address for one of them"),
        (EXPORT + "receivers: {tokens: [{env: T}], forward_headers: [authorization]}", "the gateway's own secret"),
        (EXPORT + "admin: {listen: '0.0.0.0:4319'}", "admin.tokens"),
        ("export: {endpoint: 'http://localhost:4318'}", "leads back to this gateway"),
        ("export: {endpoint: 'http://127.0.0.1:4317', protocol: grpc}", "leads back to this gateway"),
        ("export: {endpoint: 'http://c:1', logs: {endpoint: 'http://[::1]:4318'}}", "leads back to this gateway"),
        ("export: {endpoint: 'http://c:1', protocol: grpc, compression: zstd}", "zstd"),
        ("export: {endpoint: 'http://c:1', tls: {certificate: a.pem}}", "together"),
        ("export: {endpoint: 'collector:4318'}", "expected a URL"),
        ("export: {endpoint: 'http://c:1', headers: {'a b': x}}", "the name of a header"),
        ('export: {endpoint: "http://c:1", headers: {a: "x\\r\\ny: z"}}', "no header can have"),
        ("export: {endpoint: 'http://c:1', headers: {a: x, A: y}}", "each header once"),
        ("export: {endpoint: 'http://c:1/?key=s3cret'}", "nothing behind its path"),
        ("export: {endpoint: 'http://u:s3cret@c:1'}", "no user name and no password"),
        ("export: {endpoint: 'http://c:1', logs: {endpoint: 'https://%s@c'}}", "no user name and no password"),
        (EXPORT + "sinks: {phoenix: {endpoint: 'http://u:s3cret@c:6006'}}", "no user name and no password"),
        (EXPORT + "receivers: {http: '127.0.0.1:4317'}", "`grpc` and `http` both listen on port 4317"),
        (EXPORT + "admin: {listen: 'localhost:4318'}", "`http` and `admin` both listen on port 4318"),
        (
            EXPORT + "receivers: {grpc: '[::]:4319', allow_anonymous: true}",
            "`grpc` and `admin` both listen on port 4319",
        ),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, text: str, message: str) -> None:
    [mistake] = mistakes(tmp_path, text)
    assert message in mistake


@pytest.mark.parametrize("signal", ["", "logs: "])
@pytest.mark.parametrize(
    "name",
    [
        "Connection",
        "Transfer-Encoding",
        "host",
        "Content-Length",
        "content-type",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "grpc-timeout",
        "x-bin",
    ],
)
def test_headers_of_one_connection_are_refused(tmp_path: Path, name: str, signal: str) -> None:
    export = f"{signal}{{headers: {{{name}: x}}}}" if signal else f"headers: {{{name}: x}}"
    [mistake] = mistakes(tmp_path, f"export: {{endpoint: 'http://c:1', {export}}}\n")
    assert f'found "{name}": HTTP and gRPC set this header themselves' in mistake


def test_a_password_in_a_url_is_not_repeated(tmp_path: Path) -> None:
    assert "s3cret" not in str(mistakes(tmp_path, "export: {endpoint: 'http://u:s3cret@c:1'}"))


def test_ports_that_differ_in_their_host_are_fine(tmp_path: Path) -> None:
    loaded(tmp_path, EXPORT + "receivers: {grpc: '127.0.0.1:5', http: '[::1]:5'}\nadmin: {listen: '127.0.0.2:5'}")
    loaded(tmp_path, EXPORT + "receivers: {grpc: '127.0.0.1:0', http: '127.0.0.1:0'}\nadmin: {listen: '127.0.0.1:0'}")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("GOLDSPAN_EXPORT_ENDPONT", "GOLDSPAN_EXPORT_ENDPOINT"),
        ("GOLDSPAN_RECEIVER_HTTP", "GOLDSPAN_RECEIVERS_HTTP"),
        ("GOLDSPAN_JOURNAL_MAXBYTES", "GOLDSPAN_JOURNAL_MAX_BYTES"),
        ("GOLDSPAN_LOG_LEVL", "GOLDSPAN_LOG_LEVEL"),
        ("GOLDSPAN_JOURNAL_DIR", "GOLDSPAN_JOURNAL_FOLDER"),
        ("GOLDSPAN_GOLDEN", "GOLDSPAN_GOLDENS"),
    ],
)
def test_a_misspelt_variable_is_a_mistake(tmp_path: Path, name: str, meant: str) -> None:
    [mistake] = mistakes(tmp_path, EXPORT, **{name: "x"})
    assert mistake == f"environment: {name}: no setting has this variable: did you mean {meant}?"


def test_variables_of_others_are_no_mistakes(tmp_path: Path) -> None:
    text = EXPORT + "receivers: {tokens: [{env: GOLDSPAN_RECEIVERS_TOKEN}]}\n"
    others = {
        "GOLDSPAN_RECEIVERS_TOKEN": "t",
        "GOLDSPAN_SERVICE_HOST": "10.0.0.1",
        "GOLDSPAN_GATEWAY_PORT_4317_TCP_ADDR": "10.0.0.1",
        "GOLDSPAN_ADMIN_SERVICE_PORT_HTTP": "1",
        "GOLDSPAN_SESSION": "of an agent",
    }
    settings = loaded(tmp_path, text, **others)
    assert unknown_variables(settings, others) == ["GOLDSPAN_SESSION"]


@pytest.mark.parametrize(
    "receivers",
    [
        "{http: '0.0.0.0:4318', tokens: [{env: T}]}",
        "{http: '0.0.0.0:4318', allow_anonymous: true}",
        "{http: '0.0.0.0:4318', tls: {certificate: c, key: k, client_ca: a}}",
        "{http: '[::1]:4318', grpc: 'localhost:1'}",
    ],
)
def test_beyond_loopback_somebody_must_answer_for_it(tmp_path: Path, receivers: str) -> None:
    loaded(tmp_path, f"{EXPORT}receivers: {receivers}\n")


@pytest.mark.parametrize(
    ("written", "bytes_"), [("20MiB", 20 << 20), ("1 GB", 10**9), ("5", 5), (7, 7), ("1.5kib", 1536), ("1b", 1)]
)
def test_sizes_have_units(tmp_path: Path, written: Any, bytes_: int) -> None:
    settings = loaded(tmp_path, f"{EXPORT}limits: {{max_request_bytes: {written}}}\n")
    assert settings.limits.max_request_bytes == bytes_


@pytest.mark.parametrize(("written", "seconds"), [("500ms", 0.5), ("30s", 30), ("5m", 300), ("1h", 3600), (2.5, 2.5)])
def test_times_have_units(tmp_path: Path, written: Any, seconds: float) -> None:
    assert loaded(tmp_path, f"{EXPORT}shutdown_timeout: {written}\n").shutdown_timeout == seconds


@pytest.mark.parametrize("written", ["0", "-1", "1x", "ten", "true", ".inf", "[]"])
def test_what_is_no_time_is_refused(tmp_path: Path, written: str) -> None:
    assert "shutdown_timeout: found" in mistakes(tmp_path, f"{EXPORT}shutdown_timeout: {written}\n")[0]


def test_a_variable_beats_the_file(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        EXPORT + "goldens: a.yaml\nreceivers: {grpc: '127.0.0.1:1'}\nscoring: {hold: turn}\n",
        GOLDSPAN_GOLDENS="b.yaml, c",
        GOLDSPAN_RECEIVERS_GRPC="null",
        GOLDSPAN_RECEIVERS_TLS_CERTIFICATE="c.pem",
        GOLDSPAN_RECEIVERS_TLS_KEY="k.pem",
        GOLDSPAN_RECEIVERS_FORWARD_HEADERS="x-a,X-B",
        GOLDSPAN_EXPORT_HEADERS="x-key=1, y=2",
        GOLDSPAN_EXPORT_METRICS_ENABLED="false",
        GOLDSPAN_SCORING_HOLD="off",
        GOLDSPAN_LIMITS_MAX_CONNECTIONS="7",
        GOLDSPAN_LOG_LEVEL="",
        GOLDSPAN_SESSION="not one of ours",
    )
    assert [str(path) for path in settings.goldens] == ["b.yaml", "c"]
    assert settings.receivers.grpc is None
    assert settings.receivers.tls is not None
    assert settings.receivers.forward_headers == ("x-a", "x-b")
    assert settings.export.headers == {"x-key": "1", "y": "2"}
    assert settings.export.destination(Signal.METRICS, {}) is None
    assert settings.scoring.hold == "off"
    assert settings.limits.max_connections == 7


def test_each_option_has_a_variable_of_its_own() -> None:
    names = [name for name, _ in variables()]
    assert len(names) == len(set(names)) > 70
    assert {"GOLDSPAN_EXPORT_ENDPOINT", "GOLDSPAN_JOURNAL_FOLDER", "GOLDSPAN_EXPORT_HEADERS"} <= set(names)


def test_a_signal_inherits_what_it_does_not_say_itself(tmp_path: Path) -> None:
    text = """\
export:
  endpoint: https://collector:4318
  compression: zstd
  headers: {x-key: {env: KEY}}
  timeout: 3s
  tls: {ca: ca.pem}
  concurrency: 2
  logs: {endpoint: 'http://collector:4317', protocol: grpc, compression: none, headers: {}}
"""
    export = loaded(tmp_path, text).export
    traces, logs = export.destination(Signal.TRACES, {"KEY": "k"}), export.destination(Signal.LOGS, {})
    assert traces is not None
    assert logs is not None
    assert (traces.endpoint, traces.compression, traces.headers) == ("https://collector:4318", "zstd", {"x-key": "k"})
    assert (logs.endpoint, logs.protocol, logs.compression, logs.headers) == (
        "http://collector:4317",
        "grpc",
        "none",
        {},
    )
    assert (logs.timeout, str(logs.tls.ca), traces.connections) == (3.0, "ca.pem", 2)


def test_secrets_are_read_from_their_place_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("  s3cret\n")
    text = f"{EXPORT}receivers: {{tokens: [{{file: '{tmp_path / 'token'}'}}, {{env: T}}]}}\n"
    settings = loaded(tmp_path, text)
    assert [place.read({"T": "other"}) for place in settings.receivers.tokens] == ["s3cret", "other"]
    assert "s3cret" not in repr(settings)
    with pytest.raises(SettingsError, match="the variable T holds no secret"):
        settings.receivers.tokens[1].read({})
    (tmp_path / "token").write_text("two\nlines")
    with pytest.raises(SettingsError, match="expected one line") as refused:
        settings.receivers.tokens[0].read({})
    assert "lines" not in str(refused.value).replace("one line", "")
    (tmp_path / "token").unlink()
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.receivers.tokens[0].read({})


def test_the_inside_is_told_what_was_set(tmp_path: Path) -> None:
    text = EXPORT + "scoring: {settle: 2s, session_keys: [a, b], session_gap: 5m}\ndead_letters: {enabled: false}\n"
    settings = loaded(tmp_path, text + "journal: {sync: full, max_bytes: 1MiB}\n")
    inside = settings.pipeline({"XDG_STATE_HOME": "/state"})
    assert (inside.engine.settle, inside.engine.assembly.session_keys) == (2.0, ("a", "b"))
    assert inside.engine.assembly.session_gap == 300.0
    assert (inside.journal, inside.journal_sync, inside.journal_max_bytes) == (
        Path("/state/goldspan/journal"),
        "full",
        1 << 20,
    )
    assert inside.dead_letters is None
    assert settings.pipeline({"STATE_DIRECTORY": "/var/lib/goldspan"}).journal == Path("/var/lib/goldspan/journal")


def test_defaults_of_the_inside_are_its_own() -> None:
    inside = load_settings(
        None,
        {
            **SOMEWHERE,
            "GOLDSPAN_GOLDENS": "goldens.yaml",
            "GOLDSPAN_JOURNAL_ENABLED": "false",
            "GOLDSPAN_DEAD_LETTERS_ENABLED": "false",
        },
    )
    addresses = dict.fromkeys(Signal, SOMEWHERE["GOLDSPAN_EXPORT_ENDPOINT"])
    assert inside.pipeline({}) == PipelineSettings(addresses=addresses, batch_delay=0.1)


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("127.0.0.1:0", ListenAddress("127.0.0.1", 0)),
        ("[::1]:4318", ListenAddress("::1", 4318)),
        ("host:65535", ListenAddress("host", 65535)),
    ],
)
def test_addresses_are_host_and_port(text: str, listen: ListenAddress) -> None:
    assert ListenAddress.parse(text) == listen
    assert str(listen) == text


@pytest.mark.parametrize("text", ["", "4318", ":4318", "host:", "host:65536", "host:-1", "host:٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        ListenAddress.parse(text)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_this_machine_alone(host: str, loopback: bool) -> None:
    assert ListenAddress(host, 1).is_loopback is loopback


def test_presets_and_metrics_are_checked_and_reach_the_engine(tmp_path: Path) -> None:
    text = (
        EXPORT
        + "scoring: {preset: {name: axion, strict_order: true}, metrics: [trajectory_f1=0.9], metric_timeout: 2s}"
    )
    scorer = loaded(tmp_path, text).pipeline({}).engine.scorer
    assert scorer.preset is not None
    assert (scorer.preset.name, scorer.preset.options) == ("axion", {"strict_order": True})
    assert [(one.metric.name, one.threshold) for one in scorer.metrics] == [("trajectory_f1", Fraction(9, 10))]
    wrong = mistakes(tmp_path, EXPORT + "scoring:\n  preset: axiom\n  metrics: [trajectory_f2]\n")
    assert len(wrong) == 2
    assert "goldspan.yaml:3" in wrong[0]
    assert "did you mean 'axion'?" in wrong[0]
    assert "did you mean `trajectory_f1`?" in wrong[1]


WITHOUT_GOLDEN = ["tool_parameter_schema", "tool_parameter_grounding", "tool_call_repetition"]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", WITHOUT_GOLDEN),
        ("goldens: [goldens.yaml]", []),
        ("goldens: [goldens.yaml]\nscoring: {metrics: [tool_parameter_schema]}", ["tool_parameter_schema"]),
        ("scoring: {metrics: [tool_call_repetition=1]}", ["tool_call_repetition"]),
        ("scoring: {metrics: []}", []),
    ],
)
def test_without_goldens_metrics_that_need_none_are_chosen(tmp_path: Path, text: str, chosen: list[str]) -> None:
    scorer = loaded(tmp_path, EXPORT + text).scorer()
    assert [one.metric.name for one in scorer.metrics] == chosen


def test_a_tier_of_gateways_is_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"scoring: found `tier`.*goldspan stream"):
        loaded(tmp_path, EXPORT + "scoring: {tier: assemble}")


@pytest.mark.parametrize("share", ["0.1", "1"])
def test_a_sample_is_a_share(tmp_path: Path, share: str) -> None:
    assert loaded(tmp_path, f"{EXPORT}scoring: {{sample: {share}}}").pipeline({}).sample == float(share)


@pytest.mark.parametrize("share", ["0", "1.5", "-1"])
def test_what_is_no_share_is_refused(tmp_path: Path, share: str) -> None:
    [wrong] = mistakes(tmp_path, f"{EXPORT}scoring: {{sample: {share}}}")
    assert "scoring.sample" in wrong
    assert f"found {share}, expected a number above 0 and at most 1" in wrong


def test_definitions_of_tools_come_from_a_file(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    settings = loaded(tmp_path, f"{EXPORT}scoring: {{tools: {tools}}}")
    with pytest.raises(FileError, match="cannot be read"):
        settings.scorer()
    tools.write_text('[{"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "integer"}}}}]')
    schema = settings.scorer().metrics[0].metric
    assert isinstance(schema, ToolParameterSchema)
    assert schema.tools is not None
    assert list(schema.tools) == ["look"]
