"""The JSON schema of `looptrace.toml`, by which editors complete and check it."""

from __future__ import annotations

import msgspec

from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.analyzer.settings.file_tables import file_table
from looptrace.analyzer.settings.sections import FILE_NAME


def schema() -> str:
    """Return the JSON schema of the file; that ladders rise is more than it can say."""
    file = file_table(every_rule())
    _, tables = msgspec.json.schema_components([file], ref_template="#/$defs/{name}")
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:looptrace:settings:1",
        **tables.pop(file.__name__),
        "title": FILE_NAME,
        "$defs": tables,
    }
    text = msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()
    return f"{text}\n"
