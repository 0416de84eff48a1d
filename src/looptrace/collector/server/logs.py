"""Logs as lines of JSON, without content: an exception's message may contain an agent's words."""

import json  # a log line may quote half a surrogate pair, which msgspec refuses
import logging
import traceback
from typing import IO

from looptrace.analyzer.text.times import utc_ms
from looptrace.rules.vocabulary import NS_PER_S

_LOGGERS = ("looptrace", "uvicorn", "uvicorn.error", "opentelemetry")
_SILENT = "uvicorn.access"  # It would show paths, and their names may be content.


class JsonFormatter(logging.Formatter):
    """Writes a record as one line: time, level, logger, message, and the place of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": utc_ms(round(record.created * NS_PER_S)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0]:
            kind, _, trace = record.exc_info
            line["error"] = kind.__name__
            frames = traceback.extract_tb(trace)
            line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(line, ensure_ascii=False)


def log_to(stream: IO[str]) -> logging.Handler:
    """Attach the server's loggers to a stream; returns the handler."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
    logging.getLogger(_SILENT).disabled = True
    return handler
