"""How is an audit told? One form a file."""

from __future__ import annotations
