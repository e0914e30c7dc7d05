"""What is wrong with a recorded session, and what does it cost?"""

from __future__ import annotations
