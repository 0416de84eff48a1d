"""The settings of the judge: a model behind an OpenAI-compatible endpoint, and its powers."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from looptrace.analyzer.text.addresses import URL_CHARS_MAX, address_of
from looptrace.analyzer.text.names import Name
from looptrace.rules.contract import check_bounds, numbers, refuse, required, setting

# Capitals only, because a key that is put here by mistake hardly ever has only capitals.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The address of a judge, its limits, and whether it decides.

    Raises:
        SettingError: if a value is wrong; it quotes neither the address nor the variable, because
            they may contain a key by mistake.
    """

    base_url: Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)] = required(
        "The endpoint without `/chat/completions`; it usually ends with `/v1`."
    )
    model: Name = required("The name of the model at the endpoint.")
    api_key_variable: Name | None = setting(
        None, doc="The environment variable with the key, if the endpoint needs one."
    )
    timeout_s: float = setting(
        20.0, ge=0.1, le=300.0, doc="Seconds for one question, including all tries and waits."
    )
    tries: int = setting(3, ge=1, le=10, doc="How often an unreachable or busy server is asked.")
    tokens_max: int = setting(400, ge=50, le=10_000, doc="Tokens that an answer may have.")
    response_bytes_max: int = setting(
        262_144, ge=1_024, le=16_777_216, doc="Bytes after which a response is cut off."
    )
    decides: bool = setting(
        False,
        doc="Whether a gate without an exact match is resolved if the judge sees "
        "progress, in a store and by a server.",
    )

    def __post_init__(self) -> None:
        check_bounds("judge", numbers(self))
        refuse(self._problems())

    def _problems(self) -> Iterator[str]:
        if not self.model:
            yield "judge.model is empty; it must name a model of the endpoint."
        if self.api_key_variable is not None and not _VARIABLE.fullmatch(self.api_key_variable):
            yield (
                "judge.api_key_variable must be the name of an environment variable, in capitals, "
                "digits and underscores; put the key itself into that variable."
            )
        address = address_of(self.base_url)
        is_safe = address and (address.scheme == "https" or address.is_loopback)
        if not is_safe or "?" in self.base_url:
            yield (
                "judge.base_url must be https://HOST/PATH, or http:// to this machine (localhost, "
                "127.0.0.1, [::1]), without user, password, query or fragment."
            )
