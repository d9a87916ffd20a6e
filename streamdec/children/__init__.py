"""Child processes with limits of the operating system, for what strangers wrote.

Modules::

    child     the parent's end: start a child, ask it, and say why it ended
    exchange  one message to it, and the answer, by a deadline
    serving   the child's end
"""
