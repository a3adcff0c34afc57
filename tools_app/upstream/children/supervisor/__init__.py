"""The process that owns the stdio servers of this machine. Runs with the standard library only: see `guard.main`.

Nothing here imports the project, and modules import each other relatively, since the interpreter of this process knows
only this directory. So it starts in a tenth of a second, with little memory.
"""
