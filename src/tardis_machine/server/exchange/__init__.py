"""The simulated exchanges, played live behind a gateway: each in its own protocol.

`ws://HOST:PORT/<venue host>/<path>` and `http://HOST:PORT/<venue host>/<path>` stand for the
addresses of the real venues. Beside them, `/truth` tells the book that a client must have.
"""
