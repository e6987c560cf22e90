"""Measurements and experiments: quantisation, patching, recording over a set of texts."""
