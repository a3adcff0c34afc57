"""The shipped tools, one package for each upstream. A pack imports what its authors see: sdk, http, answers and text.

Belongs here: tools, their examples and their words, and what they know about their upstream.
Does not belong here: anything that another pack needs as well, and anything that knows how calls are run.
"""
