"""Streams: from the outputs of an engine to chunks of text.

``text_stream`` and ``text_iterator`` pull from an engine, asynchronously and not; ``token_queue``
takes ids from an engine that pushes; ``pool`` steps many requests in one call.
"""
