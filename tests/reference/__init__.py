"""The method in plain Python, written from its specification alone: what the compiled code is held to.

Dicts, lists and loops by definition; nothing here is fast. Tokens of a history are ids, with `SEPARATOR` where a
placeholder stood.
"""
