"""Widgets that know no domain."""
