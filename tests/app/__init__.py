"""Tests of the app, in English or in the language that CUTAWAY_TEST_LANGUAGE names: tables of the
window are made at import, so it is chosen before.
"""

import os

from app.language import NAMES, use

for language in NAMES:
    if language == os.environ.get("CUTAWAY_TEST_LANGUAGE"):
        use(language)
