"""`python -m app` is `cutaway`."""

from app.cli import main

raise SystemExit(main())
