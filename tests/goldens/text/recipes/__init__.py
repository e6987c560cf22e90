"""One module a family; each has `RECIPES`, by row."""
