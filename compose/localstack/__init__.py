"""The local stack: real servers and every service on one machine, loopback only, everything under `.local/`.

Standard library only, because it runs before the virtual environment exists. `compose/local.py` is the entry point.
"""
