"""`python -m cutaway` is `cutaway`."""

import cutaway  # noqa: F401  finds the program's parts
from app.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
