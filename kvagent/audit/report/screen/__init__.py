"""What is on the screen, part by part?"""

from __future__ import annotations
