"""The checks of a preflight, one module for each subject.

In: a :class:`View`. Out: findings. The texts of the findings are in
``streamdec/preflight/rules.toml``.
"""
