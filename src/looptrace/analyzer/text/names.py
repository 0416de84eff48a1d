"""Texts in settings: names that people give, and values that may be secrets."""

from typing import Annotated

from msgspec import Meta

# A name is one or a few words.
NAME_CHARS_MAX = 200

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]

# The `extra` of a `Meta` whose value may be a misplaced secret, so that no error quotes it.
SECRET = {"secret": True}
