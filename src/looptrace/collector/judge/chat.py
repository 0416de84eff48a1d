"""The judge `chat`: a model behind an OpenAI-compatible endpoint.

The section `[judge]` of the settings describes it, and environment variables override that.
"""

import os
from dataclasses import replace
from typing import Any

from looptrace.analyzer.settings.judge import ChatSettings
from looptrace.collector.judge.chat_completions import ChatJudge
from looptrace.rules.contract import SettingError

URL = "LOOPTRACE_JUDGE_URL"
MODEL = "LOOPTRACE_JUDGE_MODEL"
KEY = "LOOPTRACE_JUDGE_KEY"  # the key itself; unset where the endpoint wants none

# The variable of each setting; those after the first two have defaults.
VARIABLES = {
    "base_url": URL,
    "model": MODEL,
    "timeout_s": "LOOPTRACE_JUDGE_TIMEOUT_S",
    "tries": "LOOPTRACE_JUDGE_TRIES",
    "tokens_max": "LOOPTRACE_JUDGE_TOKENS_MAX",
    "response_bytes_max": "LOOPTRACE_JUDGE_RESPONSE_BYTES_MAX",
}


def chat_judge(stated: ChatSettings | None = None) -> ChatJudge:
    """Return the judge of the settings and the environment.

    Raises:
        SettingError: if the endpoint or the model is missing, or a value is invalid; the message
        begins with the variable.
    """
    for variable, example in ((URL, "http://localhost:8000/v1"), (MODEL, "small")):
        if stated is None and not os.environ.get(variable):
            raise SettingError(
                f"{variable} is not set; set it, as in {variable}={example}, or add [judge] to "
                "looptrace.toml."
            )
    values: dict[str, Any] = {
        name: os.environ[variable] if name in ("base_url", "model") else _number(name, variable)
        for name, variable in VARIABLES.items()
        if os.environ.get(variable)
    }
    if KEY in os.environ:
        values["api_key_variable"] = KEY
    try:
        return ChatJudge(replace(stated, **values) if stated else ChatSettings(**values))
    except SettingError as error:
        message = str(error)
        for name, variable in VARIABLES.items():
            message = message.replace(f"judge.{name} ", f"{variable} ")
        raise SettingError(message) from error


def _number(name: str, variable: str) -> float:
    """Read a number; seconds may have a fraction."""
    text = os.environ[variable]
    try:
        return float(text) if name == "timeout_s" else int(text)
    except ValueError as error:
        raise SettingError(f"{variable} is {text!r}; it must be a number.") from error
