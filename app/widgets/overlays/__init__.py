"""Widgets that cover or push aside others for a while."""
