"""The responses of the gates' API, and the reading of request bodies."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from looptrace.analyzer.gates.decisions import GateError, NoGateError
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.session_names import SeveralServicesError
from looptrace.collector.api_bodies import ApiError
from looptrace.collector.server.openapi import JSON, Answer, document, operation
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.sqlite_file import is_read_only
from looptrace.errors import InputError
from looptrace.typed_json import decoded

_logger = logging.getLogger(__name__)

API_PATH = "/openapi.json"
BODY_BYTES_MAX = 64 * 1024
_ERROR_LENGTH_MAX = 500
_READ_ONLY = (
    "Nothing was recorded: the store is on a read-only file system, where nothing can be kept."
)

T = TypeVar("T")


class BodyError(InputError):
    """The body of a request is not what its path takes; the message is one line with an example."""


async def bounded_body(request: Request, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Read the body of a request.

    Raises:
        ValueError: if it is too long.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise ValueError(f"it has more than {bytes_max} bytes")
    return bytes(body)


def answer_of(content: Any, status: int = HTTPStatus.OK) -> Response:
    """Return a response with a JSON body."""
    return Response(msgspec.json.encode(content), status, media_type=JSON)


def wrong(status: int, error: str) -> Response:
    """Return a response with an error."""
    return answer_of(ApiError(plain(error, _ERROR_LENGTH_MAX)), status)


def check_writable(store_dir: Path) -> None:
    """Refuse what a store on a read-only file system could not keep.

    Raises:
        GateError: if the store is one.
    """
    if is_read_only(store_dir):
        raise GateError(_READ_ONLY)


async def body_of(
    request: Request, kind: type[T], example: str, bytes_max: int = BODY_BYTES_MAX
) -> T:
    """Return the body of a request.

    Raises:
        BodyError: if it is none of this kind.
    """
    try:
        return decoded(await bounded_body(request, bytes_max), kind)
    except (ValueError, msgspec.DecodeError) as error:
        raise BodyError(f"the body must be like {example}: {error}") from error


@operation("api", Answer("The document.", {JSON: dict}))
def described(request: Request) -> Response:
    """Show this document."""
    return answer_of(document(request.app.routes))


def _not_served(request: Request, error: Exception) -> Response:
    status, headers = (HTTPStatus.NOT_FOUND.value, None)
    if isinstance(error, HTTPException):
        status, headers = error.status_code, error.headers
    answer = wrong(status, f"{request.method} {request.url.path}: there is none; see {API_PATH}")
    answer.headers.update(headers or {})
    return answer


def error_handlers(
    on_store_error: Callable[[Exception], None],
) -> dict[Any, Callable[[Request, Exception], Response]]:
    """Return the handlers of exceptions and of unknown paths.

    What is not there, cannot be done, or is ambiguous reaches them from any handler.
    """

    def unreadable(_request: Request, error: Exception) -> Response:
        return wrong(HTTPStatus.BAD_REQUEST, str(error))

    def refused(_request: Request, error: Exception) -> Response:
        is_none = isinstance(error, NoGateError)
        return wrong(HTTPStatus.NOT_FOUND if is_none else HTTPStatus.CONFLICT, str(error))

    def not_usable(_request: Request, error: Exception) -> Response:
        # The path of the store concerns only the operator of the server.
        _logger.warning("%s", error)
        on_store_error(error)
        message = "the store cannot be used now; try again later"
        return wrong(HTTPStatus.SERVICE_UNAVAILABLE, message)

    return {
        HTTPException: _not_served,
        BodyError: unreadable,
        GateError: refused,
        SeveralServicesError: refused,
        StoreError: not_usable,
    }
