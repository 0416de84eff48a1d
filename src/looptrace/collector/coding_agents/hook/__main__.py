"""The process of a hook: `python -I -S FILE`, which imports no other part of looptrace.

It is started as a file, because Python imports ten modules more to run a folder.
"""

import os
import sys

# By their bare names: the package is not on the path of a process that must start at once.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
_asking, _doing = map(__import__, ("asking", "doing"))
sys.exit(_asking.main(sys.argv[1:], _doing.span_of))
