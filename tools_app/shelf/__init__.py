"""Answers above the token budget of their call, and values that tools keep: stored, outlined, and read in pages.

Belongs here: what is stored for a caller, for how long, and who can read it.
Does not belong here: outlines and pages themselves (answers), and the path of a call (engine).
"""
