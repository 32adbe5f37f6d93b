"""The options of a judge, in code and in the file of `goldspan score --judge`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from goldspan.collector_processor.server_urls import check_url
from goldspan.scoring.errors import FileError, SettingsError
from goldspan.scoring.goldens.documents import (
    MistakeCollector,
    Unreadable,
    ValuePath,
    nearest,
    read_json,
    read_text,
    read_yaml,
)
from goldspan.scoring.json_values import is_mapping, shown
from goldspan.scoring.metrics.judge import JudgePreset, When

Client = Literal["openai", "litellm", "pydantic_ai"]
"""What sends questions: an OpenAI-compatible endpoint (`base_url`), or an installed library."""
AnswerForm = Literal["json_schema", "tool", "text"]
"""How an answer is asked for: as `response_format`, as a tool to call, or by the prompt alone."""

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]


def _url(value: str) -> str:
    return check_url(value, "a URL such as https://api.openai.com/v1", "`api_key_env` names the key's variable")


class _Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JudgeBudget(_Options):
    """What a judge may use. Answers from the cache cost nothing. What is used up leaves no answers."""

    calls: _Count | None = None
    """Requests to the model, repeated ones included."""
    tokens: _Count | None = None
    """Tokens of prompts and answers: as the server counts them, else a quarter of the characters."""
    seconds: _Positive | None = None
    """Seconds in which the judge waits for the model."""
    every: _Positive | None = None
    """Seconds after which the budget is there again, such as 86400; null: never."""


class JudgeOptions(_Options):
    """Which model is asked, how, when, and how often."""

    model: str = ""
    """The model's name for the server or the library; with a callable, what the cache knows it by."""
    client: Client = "openai"
    """What sends questions."""
    base_url: Annotated[str, AfterValidator(_url)] | None = None
    """The endpoint that `/chat/completions` is added to; only with the client `openai`."""
    api_key_env: str | None = None
    """The environment variable that holds the API key."""
    preset: JudgePreset = "goldspan"
    """The prompt: `goldspan`, or `strands`, which asks what Strands Evals 1.7 asks."""
    system_prompt: str | None = None
    """In place of the preset's system prompt."""
    when: When = "always"
    """`ungrounded`: only calls that `tool_parameter_grounding` fails or cannot judge."""
    answer: AnswerForm | None = None
    """How an answer is asked for; by default `tool` with the preset `strands`, else `json_schema`."""
    request: Mapping[str, Any] = {}
    """More fields of a request, such as `max_completion_tokens`; null leaves a field out, such as `temperature`."""
    budget: JudgeBudget = JudgeBudget()
    """What may be used."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """Questions that are asked at the same time, about one session or several."""
    timeout: _Positive = 30.0
    """Seconds for one request."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """Requests for one question, if one fails or its answer cannot be read."""
    longest_wait: _Positive = 60.0
    """Seconds to wait before another attempt, at most: a server that asks for more is not asked again."""
    cache: Path | None = None
    """A SQLite file that keeps answers; without it they are kept in memory."""

    @model_validator(mode="after")
    def _complete(self) -> JudgeOptions:
        if self.client != "openai" and self.base_url is not None:
            raise ValueError(f"`base_url` goes with the client `openai`, not with `{self.client}`")
        if self.api_key_env is not None and self.client == "pydantic_ai":
            raise ValueError("`api_key_env`: pydantic-ai reads the API key from its provider's own variable")
        return self

    @property
    def answer_form(self) -> AnswerForm:
        """How an answer is asked for."""
        return self.answer or ("tool" if self.preset == "strands" else "json_schema")


def judge_options(given: Mapping[str, Any]) -> JudgeOptions:
    """Check options given in code. Raises SettingsError with every mistake."""
    try:
        return JudgeOptions.model_validate(given)
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, where))}: {text}" if where else text
            for where, text in map(_described, error.errors(include_url=False))
        ]
        raise SettingsError("judge: " + "; ".join(lines)) from None


def load_judge_options(path: Path) -> JudgeOptions:
    """Read options from a YAML or JSON file.

    Raises:
        FileError: every mistake, each with file, line and field.

    """
    collector = MistakeCollector(str(path))
    with suppress(Unreadable):
        text = read_text(path, collector)
        document = (read_json if path.suffix.lower() == ".json" else read_yaml)(text, collector)
        if not is_mapping(document):
            collector.add((), f"found {shown(document)}, expected a mapping such as `model: gpt-4.1-mini`")
        elif not document.get("model"):
            collector.add((), "`model` is missing: the name of the model to ask")
        elif document.get("client", "openai") == "openai" and not document.get("base_url"):
            collector.add((), "`base_url` is missing: the endpoint of the model, such as https://api.openai.com/v1")
        else:
            try:
                return JudgeOptions.model_validate(dict(document))
            except ValidationError as error:
                for where, message in map(_described, error.errors(include_url=False)):
                    collector.add(where, message)
    raise FileError(*collector.in_order())


def _described(detail: Any) -> tuple[ValuePath, str]:
    """Return the path and the message of one of pydantic's errors."""
    where: ValuePath = tuple(detail["loc"])
    kind, found = detail["type"], shown(detail["input"])
    if kind == "extra_forbidden":
        known = list((JudgeBudget if len(where) > 1 and where[0] == "budget" else JudgeOptions).model_fields)
        near = nearest(str(detail["loc"][-1]), known)
        hint = f"did you mean `{near}`?" if near else f"there are {', '.join(known)}"
        return where, f"unknown field: {hint}"
    if kind == "value_error":
        return where, str(detail["ctx"]["error"])
    if kind == "literal_error":
        return where, f"found {found}, expected {str(detail['ctx']['expected']).replace(chr(39), '`')}"
    return where, f"found {found}: {detail['msg']}"
