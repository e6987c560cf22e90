"""`python -m tests.judge`: see judge.py."""

from tests.judge.judge import main

raise SystemExit(main())
