"""What does ``python -m kvagent`` run? What the command ``kvagent`` runs."""

from __future__ import annotations

from kvagent.cli import main

if __name__ == "__main__":
    main(prog_name="kvagent")
