"""Tests, and the programs beside them."""

import os

# Tests' matrices are small: NumPy's second thread spends its time waiting, and as much of a
# processor as the first. Set before NumPy is imported; the programs that tests start inherit it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
