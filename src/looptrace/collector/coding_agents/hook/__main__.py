"""The process of a hook: `python -I -S FOLDER`, which imports no other part of looptrace."""

from __future__ import annotations

import sys

# By their bare names: the package is not on the path of a process that must start at once.
_asking, _doing = map(__import__, ("asking", "doing"))
sys.exit(_asking.main(sys.argv[1:], _doing.span_of))
