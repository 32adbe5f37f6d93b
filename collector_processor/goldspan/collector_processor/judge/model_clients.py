"""What puts a question to a model: a function, an OpenAI-compatible endpoint, litellm or pydantic-ai.

The options of a judge, in code and in the file of `goldspan score --judge`, stand here too.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from inspect import isawaitable, iscoroutinefunction
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from goldspan.collector_processor.daemon_threads import call_in_thread
from goldspan.collector_processor.server_urls import check_url
from goldspan.scoring.errors import FileError, SettingsError
from goldspan.scoring.goldens import documents
from goldspan.scoring.json_values import is_mapping, is_sequence, shown
from goldspan.scoring.metrics.judge import JudgeAnswer, JudgePreset, Question, When

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
    """`ungrounded`: only calls that `tool_parameter_grounding` fails or cannot judge. `doubtful`: only calls with a
    value that is assumed, comes from nowhere, or deviates from `profile`; generated values are no doubt."""
    profile: Path | None = None
    """With `doubtful`: the file of `goldspan profile learn`."""
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
    """Seconds to wait for one question, at most: where a server asks for more, the question has no answer."""
    requests_per_minute: _Positive | None = None
    """Requests that the server takes; more wait. null: as many as there are, until it answers 429."""
    tokens_per_minute: _Positive | None = None
    """Tokens, likewise: those of a prompt are estimated."""
    ask_again_for: _Positive = 3600.0
    """Seconds for which the gateway asks again what was not answered, such as while the server was away."""
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
    """Read options from a YAML or JSON file. Raises FileError: every mistake, each with file, line and field."""
    collector = documents.MistakeCollector(str(path))
    with suppress(documents.Unreadable):
        text = documents.read_text(path, collector)
        document = (documents.read_json if path.suffix.lower() == ".json" else documents.read_yaml)(text, collector)
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


def _described(detail: Any) -> tuple[documents.ValuePath, str]:
    """Return the path and the message of one of pydantic's errors."""
    where: documents.ValuePath = tuple(detail["loc"])
    kind, found = detail["type"], shown(detail["input"])
    if kind == "extra_forbidden":
        known = list((JudgeBudget if len(where) > 1 and where[0] == "budget" else JudgeOptions).model_fields)
        near = documents.nearest(str(detail["loc"][-1]), known)
        hint = f"did you mean `{near}`?" if near else f"there are {', '.join(known)}"
        return where, f"unknown field: {hint}"
    if kind == "value_error":
        return where, str(detail["ctx"]["error"])
    if kind == "literal_error":
        return where, f"found {found}, expected {str(detail['ctx']['expected']).replace(chr(39), '`')}"
    return where, f"found {found}: {detail['msg']}"


_MAX_SAID = 300  # characters of what a server said about an error
_RETRIED = frozenset((408, 409, 425, 429))
_T = TypeVar("_T")

ModelAnswer = JudgeAnswer | str | bool | Mapping[str, Any]
"""What a function may answer: `JudgeAnswer`, True, `{"reasoning": ..., "score": "Yes"}`, or text with such JSON."""
ModelFunction = Callable[[Question], ModelAnswer | Awaitable[ModelAnswer]]
"""A model as a function, sync or async."""


class Reply(NamedTuple):
    """What a model replied."""

    content: object
    """A `JudgeAnswer`, a boolean, an object or a text."""
    tokens: int | None = None
    """Tokens of question and reply; None if the server does not say."""


class ModelError(Exception):
    """A model gave no reply."""

    def __init__(self, message: str, *, said: str = "", retry: bool = True, wait: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        """One line without content of the conversation."""
        self.detailed = f"{message}: {said}" if said else ""
        self.retry = retry
        """Another attempt may succeed."""
        self.wait = wait
        """Seconds that the server asks to wait."""


class ModelClient(Protocol):
    """Puts a question to a model. Thread-safe."""

    @property
    def identity(self) -> str:
        """What an answer depends on besides the question: model, endpoint and settings."""
        ...

    def __call__(self, question: Question, seconds: float) -> Reply:
        """Return the reply within `seconds`. Raises ModelError."""
        ...


def model_client(model: Any, options: JudgeOptions) -> ModelClient:
    """Return the client for a function, a model of pydantic-ai, or what the options name.

    Raises SettingsError: an option, an API key or a library is missing.
    """
    if options.client == "pydantic_ai":
        return _PydanticAi(model or options.model, options)
    if callable(model):
        return _Function(model, options)
    if model is not None:
        raise SettingsError(f"judge: model: found a {type(model).__name__}, expected a name or a function that answers")
    if not options.model:
        raise SettingsError("judge: `model` is missing: the name of the model to ask, or a function that answers")
    key = _api_key(options)
    if options.client == "litellm":
        return _LiteLlm(options, key)
    if options.base_url is None:
        raise SettingsError("judge: `base_url` is missing: the endpoint, such as https://api.openai.com/v1")
    return _OpenAi(options, options.base_url, key)


def _api_key(options: JudgeOptions) -> str:
    if options.api_key_env is None:
        return ""
    key = os.environ.get(options.api_key_env, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        message = f"the variable {options.api_key_env} holds no API key: expected one line of printable ASCII"
        raise SettingsError(f"judge: api_key_env: {message}")
    return key


def _library(name: str, extra: str) -> Any:
    """Import what an extra installs. Raises SettingsError."""
    try:
        return import_module(name)
    except ImportError as error:
        message = f"the client needs {name}, which cannot be imported ({error}): pip install 'goldspan[{extra}]'"
        raise SettingsError(f"judge: {message}") from None


def _identity(options: JudgeOptions, model: str) -> str:
    asked = {"temperature": 0, **options.request}
    return json.dumps([options.client, options.base_url, model, options.answer_form, asked], sort_keys=True)


def _request(question: Question, options: JudgeOptions) -> dict[str, Any]:
    """Return the fields of a chat completion."""
    form, tool = options.answer_form, question.answer
    fields: dict[str, Any] = {"model": options.model, "messages": question.messages, "temperature": 0}
    if form == "tool":
        function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
        fields["tools"] = [{"type": "function", "function": function}]
        fields["tool_choice"] = {"type": "function", "function": {"name": tool.name}}
    elif form == "json_schema":
        schema = {"name": tool.name, "schema": tool.schema, "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {name: value for name, value in {**fields, **options.request}.items() if value is not None}


def _completion(document: object) -> Reply:
    """Read a chat completion. Raises ModelError."""
    choices = document.get("choices") if is_mapping(document) else None
    choice = choices[0] if is_sequence(choices) and choices else None
    message = choice.get("message") if is_mapping(choice) else None
    if not is_mapping(document) or not is_mapping(message):
        raise ModelError("the response is no chat completion")
    return Reply(_content(message) or "", _tokens(document.get("usage")))


def _tokens(usage: object) -> int | None:
    total = usage.get("total_tokens") if is_mapping(usage) else None
    return total if isinstance(total, int) and total >= 0 else None


def _content(message: Mapping[str, Any]) -> object:
    calls = message.get("tool_calls")
    call = calls[0] if is_sequence(calls) and calls else None
    function = call.get("function") if is_mapping(call) else None
    content = function.get("arguments") if is_mapping(function) else message.get("content")
    if is_sequence(content):
        return "".join(str(part.get("text", "")) for part in content if is_mapping(part))
    return content


class _OpenAi:
    """Any endpoint that takes OpenAI's chat completions."""

    def __init__(self, options: JudgeOptions, base_url: str, key: str) -> None:
        try:
            # urllib3 is in an extra, which a judge by a function does not need.
            from goldspan.collector_processor.http_client import HttpClient, describe, parse_retry_after  # noqa: PLC0415
        except ImportError as error:
            raise SettingsError(
                f"judge: an endpoint needs urllib3, which cannot be imported ({error}): pip install 'goldspan[judge]'"
            ) from None
        self.identity = _identity(options, options.model)
        self._options, self._key = options, key
        self._describe, self._parse_retry_after = describe, parse_retry_after
        self._http = HttpClient(base_url, connections=options.concurrency)

    def __call__(self, question: Question, seconds: float) -> Reply:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        body = json.dumps(_request(question, self._options)).encode()
        try:
            response = self._http.request("POST", "/chat/completions", body, headers, seconds=seconds)
        except Exception as error:  # noqa: BLE001 - urllib3 and sockets raise many kinds
            said = self._hidden(self._describe(error))
            raise ModelError(f"no response ({type(error).__name__})", said=said) from None
        text = response.body.decode("utf-8", "replace")
        if response.status != 200:
            wait = self._parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
            retry = response.status in _RETRIED or response.status >= 500
            raise ModelError(f"HTTP {response.status}", said=self._hidden(text), retry=retry, wait=wait)
        if response.unread:
            raise ModelError("the response broke off", said=self._hidden(response.unread))
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise ModelError("the response is no JSON", said=self._hidden(text)) from None
        return _completion(document)

    def _hidden(self, text: str) -> str:
        """Return what a server said on one line, without the API key, which some repeat."""
        text = text.replace(self._key, "***") if self._key else text
        return " ".join(text.split())[:_MAX_SAID]


class _Loop:
    """An event loop in a thread of its own, for clients that wait; begun at the first question."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def run(self, answer: Awaitable[_T], seconds: float) -> _T:
        """Return what is waited for. Raises TimeoutError, and whatever it raises."""

        async def wait() -> _T:
            return await asyncio.wait_for(answer, seconds)

        # A client that blocks the loop is not waited for either.
        return asyncio.run_coroutine_threadsafe(wait(), self._started()).result(seconds + 1.0)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="goldspan judge", daemon=True).start()
            return self._loop


class _Function:
    """A function of the user's. One that hangs keeps its thread; there are never more of these than `concurrency`."""

    def __init__(self, function: Callable[..., Any], options: JudgeOptions) -> None:
        name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
        self.identity = _identity(options, options.model or name)
        self._function, self._loop = function, _Loop()
        self._free = threading.BoundedSemaphore(options.concurrency)
        self._waits = iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004

    def __call__(self, question: Question, seconds: float) -> Reply:
        try:
            return Reply(self._answer(question, seconds))
        except TimeoutError:
            raise ModelError(f"no answer within {seconds:g} seconds") from None
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"{type(error).__name__} raised", said=str(error)[:_MAX_SAID]) from error

    def _answer(self, question: Question, seconds: float) -> object:
        if self._waits:
            answer = self._function(question)
            return self._loop.run(answer, seconds) if isawaitable(answer) else answer
        if not self._free.acquire(timeout=seconds):
            raise TimeoutError
        future = call_in_thread(partial(self._function, question), "goldspan judge")
        future.add_done_callback(lambda _: self._free.release())
        later = future.result(seconds)
        return self._loop.run(later, seconds) if isawaitable(later) else later


class _LiteLlm:
    """Any model that litellm reaches."""

    def __init__(self, options: JudgeOptions, key: str) -> None:
        self.identity = _identity(options, options.model)
        self._options, self._key = options, key
        self._litellm = _library("litellm", "litellm")

    def __call__(self, question: Question, seconds: float) -> Reply:
        fields = _request(question, self._options) | ({"api_key": self._key} if self._key else {})
        try:
            response = self._litellm.completion(**fields, timeout=seconds, num_retries=0)
        except Exception as error:  # noqa: BLE001 - the library's own
            said = " ".join(str(error).split())
            said = said.replace(self._key, "***") if self._key else said
            raise _of_library(error, said) from None
        return _completion(response.model_dump())


class _PydanticAi:
    """Any model that pydantic-ai reaches: a name such as `openai:gpt-4.1-mini`, or a model made in code."""

    def __init__(self, model: object, options: JudgeOptions) -> None:
        name = model if isinstance(model, str) else options.model or str(getattr(model, "model_name", ""))
        self.identity = _identity(options, name)
        self._model, self._options, self._loop = model, options, _Loop()
        self._library = _library("pydantic_ai", "pydantic-ai")

    def __call__(self, question: Question, seconds: float) -> Reply:
        tool = question.answer
        settings = {"temperature": 0, "timeout": seconds, **self._options.request}
        form = self._library.StructuredDict(dict(tool.schema or {}), name=tool.name, description=tool.description)
        try:
            agent = self._library.Agent(self._model, system_prompt=question.system, output_type=form, retries=0)
            given = {name: value for name, value in settings.items() if value is not None}
            result = self._loop.run(agent.run(question.prompt, model_settings=given), seconds)
        except TimeoutError:
            raise ModelError(f"no answer within {seconds:g} seconds") from None
        except Exception as error:  # noqa: BLE001 - the library's own
            raise _of_library(error, " ".join(str(error).split())) from None
        return Reply(result.output, result.usage.total_tokens or None)


def _of_library(error: Exception, said: str) -> ModelError:
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return ModelError(f"{type(error).__name__} raised", said=said[:_MAX_SAID])
    retry = status in _RETRIED or status >= 500
    return ModelError(f"HTTP {status}", said=said[:_MAX_SAID], retry=retry)
