"""The header with which a server says when to try again."""

import time
from email.utils import mktime_tz, parsedate_tz


def seconds(retry_after: str, default_s: float) -> float:
    """Return how long a server asks to wait, in seconds or until a date."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        date = parsedate_tz(retry_after)
        return max(mktime_tz(date) - time.time(), 0.0) if date else default_s
    except (ValueError, OverflowError):  # The date does not exist.
        return default_s
