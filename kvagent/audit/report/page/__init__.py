"""Of which parts is the page of a report made?

Python files say what is drawn and where; templates, style and script stand in files of their own
and are put into one page that needs nothing else.
"""

from __future__ import annotations
