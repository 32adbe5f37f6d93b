"""Each alert in an outage, a burst, a restart, sparse traffic and none, as promtool evaluates the rules."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

from rigs.repository import ROOT

RULES = ROOT / "config/prometheus/rules.yaml"
OF = 'service_name="travel",tool_parameter_match_golden_set="g"'
OF_ARGUMENT = f'{OF},gen_ai_tool_name="book",tool_parameter_match_argument="city"'
WRONG = f"tool_parameter_match_argument_mismatches_total{{{OF_ARGUMENT}}}"
HIDDEN = f'tool_parameter_match_not_evaluated_total{{{OF},tool_parameter_match_level="turn"}}'


def turns(label: str, instance: str = "a") -> str:
    own = f'{OF},tool_parameter_match_level="turn",tool_parameter_match_label="{label}",instance="{instance}"'
    return f"tool_parameter_match_score_count{{{own}}}"


def own(name: str, **labels: str) -> str:
    labels = {"job": "goldspan", "instance": "a"} | labels
    return f"{name}{{{','.join(f'{key}={json.dumps(value)}' for key, value in labels.items())}}}"


class Case(NamedTuple):
    """What is scraped once a minute, which alerts fire by then, and what expressions say."""

    series: Mapping[str, str]
    firing: Mapping[str, set[str]]
    values: Mapping[tuple[str, str], float] = {}


DAY = "sum(sum_over_time(tool_parameter_match:argument_mismatches:increase1m[1d]))"
PASSING = (
    'sum(sum_over_time(tool_parameter_match:results:increase1m{tool_parameter_match_label="pass"}[1d]))'
    " / sum(sum_over_time(tool_parameter_match:results:increase1m[1d]))"
)
FIRST = "tool_parameter_match:argument_mismatches:first_seen"
QUIET: Mapping[str, str] = {
    turns("pass"): "100x600",
    turns("fail"): "50x600",
    WRONG: "50x600",
    own("goldspan_info", version="1"): "1x600",
    own("up"): "1x600",
    own("goldspan_golden_files", state="refused"): "0x600",
    own("goldspan_credentials_refused"): "0x600",
    own("goldspan_certificate_expiry_timestamp_seconds", server="receivers"): "9999999x600",
    own("goldspan_receiver_refused_requests_total", reason="unauthenticated"): "7x600",
    own("goldspan_receiver_requests_total", outcome="too_many", tenant="b"): "7x600",
    own("goldspan_not_accepted_requests_total", reason="full"): "7x600",
    own("goldspan_refused_requests_total", signal="traces"): "7x600",
    own("goldspan_stream_dead_letters_total", topic="otlp_spans"): "500x600",
    own("goldspan_stream_too_large_total", topic="goldspan.spans"): "5x600",
    own("goldspan_failures_total", where="engine"): "5x600",
    own("goldspan_unread_services"): "0x600",
    own("goldspan_judge_oldest_waiting_seconds"): "3x600",
    own("goldspan_judge_given_up_sessions_total"): "3x600",
    own("goldspan_judge_dropped_sessions_total"): "3x600",
}
"""Counters that stand still: they grew long ago."""


def burst(name: str, **labels: str) -> Mapping[str, str]:
    return {own(name, **labels): "0x60 500x600"}


CASES = {
    "no traffic at all": Case({}, {"1h": set(), "9h": set()}),
    "no traffic after some": Case(QUIET, {"2h": set(), "9h": set()}, {(DAY, "9h"): 50}),
    "a nightly burst of a job that was not there before": Case(
        {turns("fail"): "_x60 240x5", turns("pass"): "_x60 10x5", WRONG: "_x60 240x5"},
        {"59m": set(), "61m": {"ToolArgumentsWrong"}, "90m": {"ToolArgumentsWrong"}, "122m": set(), "9h": set()},
        {(DAY, "9h"): 240, (PASSING, "9h"): 0.04, (f"max({FIRST})", "9h"): 3600},
    ),
    "a job that an idle exporter dropped, and that comes again with what it had": Case(
        {WRONG: "3x10 _x30 5x20"}, {"1h": set()}, {(DAY, "1h"): 5, (f"max({FIRST})", "1h"): 0}
    ),
    "a restart under the same name": Case(
        {WRONG: "0 40x20 3x20", turns("pass"): "0+10x20 0+10x20", turns("fail"): "0 1x40"},
        {"40m": set()},
        {(DAY, "40m"): 43},
    ),
    "a restart under another name": Case(
        {turns("fail", "a"): "0+2x20", turns("fail", "b"): "_x21 2+2x20", turns("pass", "b"): "_x21 1x20"},
        {"41m": {"ToolArgumentsWrong"}},
        {(PASSING, "41m"): 1 / (40 + 42 + 1)},
    ),
    "one failing turn": Case(
        {turns("fail"): "_x10 1x300", turns("pass"): "_x10 0x300"}, {"11m": set(), "30m": set(), "2h": set()}
    ),
    "sparse traffic, one turn of three fails": Case(
        {turns("fail"): "0x59 1x59 2x59 3x59", turns("pass"): "0x59 2x59 4x59 6x59"},
        {"61m": set(), "121m": set(), "3h": set()},
        {(PASSING, "4h"): 2 / 3},
    ),
    "arguments that are not recorded": Case(
        {HIDDEN: "_x60 100x5", turns("pass"): "_x60 3x5"},
        {"59m": set(), "61m": {"ToolArgumentsNotEvaluated"}, "125m": set()},
    ),
    "three workers are killed": Case(
        {
            **{own("goldspan_info", instance=name, version="1"): "1x30" for name in "abc"},
            **{own("up", instance=name): "1x30 0x60" for name in "abc"},
        },
        {"30m": set(), "33m": {"GoldspanDown"}, "80m": {"GoldspanDown", "GoldspanGone"}},
    ),
    "one of three is killed": Case(
        {
            **{own("goldspan_info", instance=name, version="1"): "1x90" for name in "ab"},
            **{own("up", instance=name): "1x90" for name in "ab"},
            own("goldspan_info", instance="c", version="1"): "1x30",
            own("up", instance="c"): "1x30 0x60",
        },
        {"30m": set(), "33m": {"GoldspanDown"}},
    ),
    "all are taken from discovery": Case(
        {own("goldspan_info", version="1"): "1x30 stale", own("up"): "1x30 stale"},
        {"30m": set(), "34m": {"GoldspanGone"}},
    ),
    "a server that is restarted": Case(
        {own("goldspan_info", version="1"): "1x30 _ 1x60", own("up"): "1x30 0 1x60"},
        {"31m": set(), "33m": set(), "60m": set()},
    ),
    "500 dead letters at once": Case(
        burst("goldspan_stream_dead_letters_total", topic="otlp_spans"),
        {"1h": set(), "62m": {"StreamDeadLetters"}, "80m": set()},
    ),
    "outputs that are too large": Case(
        burst("goldspan_stream_too_large_total", topic="goldspan.spans"), {"62m": {"StreamOutputsTooLarge"}}
    ),
    "requests that the next receiver refuses": Case(
        burst("goldspan_refused_requests_total", signal="traces"), {"62m": {"DownstreamRefuses"}, "80m": set()}
    ),
    "clients with a wrong token": Case(
        burst("goldspan_receiver_refused_requests_total", reason="unauthenticated"),
        {"62m": {"ClientsRefused"}, "80m": set()},
    ),
    "one request that is refused": Case(
        {own("goldspan_receiver_refused_requests_total", reason="too_large"): "0x60 1x60"}, {"62m": {"ClientsRefused"}}
    ),
    "a storm of one tenant": Case(
        burst("goldspan_receiver_requests_total", outcome="too_many", tenant="b"), {"62m": {"TenantSendsTooMuch"}}
    ),
    "a gateway that is full": Case(
        burst("goldspan_not_accepted_requests_total", reason="full"), {"62m": {"GatewayRefuses"}}
    ),
    "a failure of goldspan": Case(burst("goldspan_failures_total", where="engine"), {"62m": {"GoldspanFails"}}),
    "a golden file that is refused and mended": Case(
        {own("goldspan_golden_files", state="refused"): "0x10 1x10 0x30"},
        {"5m": set(), "12m": {"GoldenFilesRefused"}, "25m": set()},
    ),
    "credentials that cannot be used": Case(
        {own("goldspan_credentials_refused"): "0x10 1x10"}, {"12m": {"CredentialsRefused"}}
    ),
    "a certificate that ends in a day": Case(
        {own("goldspan_certificate_expiry_timestamp_seconds", server="receivers"): "86400x60"},
        {"5m": {"CertificateExpires"}},
    ),
    "a team that is not understood": Case(
        {own("goldspan_unread_services"): "0x10 1x60"}, {"12m": set(), "28m": {"TelemetryNotUnderstood"}}
    ),
    "a judge whose model is away": Case(
        {own("goldspan_judge_oldest_waiting_seconds"): "0+60x60"}, {"14m": set(), "17m": {"JudgeBehind"}}
    ),
    "a judge that gives up": Case(
        {
            own("goldspan_judge_given_up_sessions_total"): "0x60 3x60",
            own("goldspan_judge_dropped_sessions_total"): "0x120",
        },
        {"62m": {"JudgeGivesUp"}},
    ),
    "arguments that a schema does not allow, in one hour and as ever": Case(
        {
            'tool_parameter_schema_failed_arguments_total{service_name="new",tool_parameter_schema_argument="when"}': (
                "0x600 40x30"
            ),
            'tool_parameter_schema_failed_arguments_total{service_name="ever",tool_parameter_schema_argument="when"}': (
                "0+1x630"
            ),
        },
        {"602m": {"ArgumentsFailWithoutGolden"}},
        {('count(ALERTS{alertname="ArgumentsFailWithoutGolden",service_name="new"})', "602m"): 1},
    ),
}


@pytest.fixture(scope="module")
def promtool() -> str:
    if (found := shutil.which("promtool")) is None:
        pytest.skip("no promtool on the PATH (Debian: apt-get install prometheus)")
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_fires(promtool: str, name: str, tmp_path: Path) -> None:
    case = CASES[name]
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    expected: list[dict[str, Any]] = [
        {
            "expr": f"0 * {firing}",
            "eval_time": when,
            "exp_samples": [{"labels": f'{{alertname="{one}"}}', "value": 0} for one in sorted(alerts)],
        }
        for when, alerts in case.firing.items()
    ]
    expected += [
        {
            "expr": f"abs(({expression}) - {value}) < bool 1e-9",
            "eval_time": when,
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for (expression, when), value in case.values.items()
    ]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
                "promql_expr_test": expected,
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(json.dumps(test), "utf-8")
    ran = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_alert_has_a_case() -> None:
    fired = {alert for case in CASES.values() for alerts in case.firing.values() for alert in alerts}
    document = YAML(typ="safe").load(RULES)
    alerts = {rule["alert"] for group in document["groups"] for rule in group["rules"] if "alert" in rule}
    assert fired <= alerts
    assert alerts - fired == UNCHANGED


UNCHANGED = {
    "DeliveriesLate",
    "DownstreamAway",
    "GatewayThreadsFail",
    "GoldenNeverSeen",
    "GoldspanLosesSpans",
    "JournalNearlyFull",
    "StreamBehind",
    "StreamPartitionBehind",
    "StreamReadsStateAgain",
    "StreamRecordsLate",
    "StreamStartsAnew",
}
"""Alerts on gauges and on what goes on for long, which no burst is."""
