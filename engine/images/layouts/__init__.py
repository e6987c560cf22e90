"""From a picture's size to its plan: a function for each family's rule, all numbers given to it.

What a tower file's `plan` calls. Defaults are the markers that the published vocabularies hold.
"""
