"""A hook of the site: links to files of the repository, which a page cannot show, become names."""

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<to>(?:\.\./)+[^)#\s]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_others: Any) -> str:
    """Return a page whose links out of the documentation name the file instead."""
    folder = posixpath.dirname(page.file.src_uri)

    def named(link: re.Match[str]) -> str:
        to = posixpath.normpath(posixpath.join(folder, link["to"]))
        if not to.startswith("../"):
            return link[0]
        text, path = link["text"], to.removeprefix("../")
        return text if path in text else f"{text} (`{path}`)"

    return _LINK.sub(named, markdown)
