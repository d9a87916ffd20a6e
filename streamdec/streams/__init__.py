"""Streams: from the outputs of an engine to chunks of text.

``text_stream`` reads an asynchronous engine, ``text_iterator`` a plain one; ``token_queue`` takes
ids from an engine that pushes; ``pool`` steps many requests in one call.
"""
