"""Child processes with limits of the operating system, for files and templates of strangers.

``child`` is the parent's end, and ``serving`` the child's.
"""
