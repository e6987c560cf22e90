"""OpenCL C: one kernel family per file, included files in `parts`. README.md has more."""
