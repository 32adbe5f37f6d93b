"""Settings of back-ends that get scores by their own APIs, because they read them from nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from goldspan.collector_processor.gateway.settings_fields import Endpoint, Secret, SecretText, Section
from goldspan.collector_processor.sinks import LangfuseScores, MLflowScores, PhoenixScores
from goldspan.collector_processor.sinks.feed import Feed


class PhoenixSink(Section):
    """Arize Phoenix: annotations of spans, traces and sessions."""

    endpoint: Endpoint
    """Its web address, such as http://localhost:6006."""
    api_key: SecretText | None = None
    """null: the variable PHOENIX_API_KEY, if there is one."""


class MLflowSink(Section):
    """MLflow: feedback on spans and traces."""

    endpoint: Endpoint
    """The tracking server, such as http://localhost:5000."""
    token: SecretText | None = None
    """null: by the variables MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."""


class LangfuseSink(Section):
    """Langfuse: scores of observations, traces and sessions."""

    endpoint: Endpoint
    """Its address, such as https://cloud.langfuse.com."""
    public_key: SecretText | None = None
    """null: the variable LANGFUSE_PUBLIC_KEY."""
    secret_key: SecretText | None = None
    """null: the variable LANGFUSE_SECRET_KEY."""


class Sinks(Section):
    """Back-ends that get scores by their own APIs, beside what is exported. Results of all tenants go there."""

    phoenix: PhoenixSink | None = None
    mlflow: MLflowSink | None = None
    langfuse: LangfuseSink | None = None

    def feed(self, environ: Mapping[str, str]) -> Feed:
        """Return what sends scores to all of them, secrets read. Raises SettingsError."""
        exporters: dict[str, PhoenixScores | MLflowScores | LangfuseScores] = {}
        if (one := self.phoenix) is not None:
            exporters["phoenix"] = PhoenixScores(one.endpoint, api_key=_read(one.api_key, environ))
        if (two := self.mlflow) is not None:
            exporters["mlflow"] = MLflowScores(two.endpoint, token=_read(two.token, environ))
        if (three := self.langfuse) is not None:
            exporters["langfuse"] = LangfuseScores(
                three.endpoint,
                public_key=_read(three.public_key, environ),
                secret_key=_read(three.secret_key, environ),
            )
        return Feed(exporters)


def _read(secret: str | Secret | None, environ: Mapping[str, str]) -> str | None:
    return secret.read(environ) if isinstance(secret, Secret) else secret
