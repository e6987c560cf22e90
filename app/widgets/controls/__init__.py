"""Labels, fields and buttons beyond the basic ones."""
