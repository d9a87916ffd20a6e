"""Child processes with limits of the operating system, for strangers' files.

``child`` is the parent's end, and ``serving`` the child's.
"""
