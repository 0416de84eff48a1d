"""OTLP/JSON export requests to rows of the span table.

Everything down to the span is decoded piece by piece, so that a bad span costs only itself.
Unknown fields are ignored, as the protocol demands; ids are hex; a null field is a missing one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from looptrace.collector.json_documents import readable_prefix, request_starts, with_whole_escapes
from looptrace.collector.sources import Frame
from looptrace.collector.span_rows import (
    SERVICE_NAME,
    BadSpan,
    Decoded,
    Problem,
    Row,
    span_row,
)

Piece = TypeVar("Piece")

STATUS_NAMES = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}
