#!/usr/bin/env python
"""Django's way in. `toolhub COMMAND` does the same from anywhere."""

from toolhub.__main__ import main

if __name__ == "__main__":
    main()
