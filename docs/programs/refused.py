"""Settings that are refused, and how init() says so.

python docs/programs/refused.py
"""

import os

import pycoll

for settings in (
    {"COLL_PACKET_SIZE": "12"},
    {"COLL_TRANSPORT": "tcp"},
    {"COLL_TUNE": "allreduce:rings"},
    {"RANK": "1"},
):
    for name in ("COLL_PACKET_SIZE", "COLL_TRANSPORT", "COLL_TUNE", "RANK"):
        os.environ.pop(name, None)
    os.environ.update(settings)
    print(" ".join(f"{name}={value}" for name, value in settings.items()))
    try:
        pycoll.init()
    except pycoll.CollError as error:
        print(f"    {type(error).__name__}: {error}")
