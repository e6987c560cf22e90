"""Recorded answers as a time line, tables, and a roofline."""
