"""Does this device compute correctly? One table of operations, types and shapes for users
(`cutaway selftest`) and for the test suite.
"""
