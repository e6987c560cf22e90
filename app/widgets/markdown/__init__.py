"""Markdown as people read it: text -> blocks -> laid-out documents -> one widget."""
