"""Well-known names and ports: what servers and their clients use unless they are told otherwise.

A consumer imports no settings, and settings import no consumer: what is the default of both is here.
"""

from __future__ import annotations

import re
from typing import Final

#: path of canal's tree in ZooKeeper
PREFIX: Final = "/otter/canal"
#: canal's only client id
CLIENT_ID: Final = "1001"
#: what listens is reached from its own machine only
HOST: Final = "127.0.0.1"
#: ports of canal's protocol, of the HTTP service, and of the gateway
CANAL_PORT: Final = 11_111
HTTP_PORT: Final = 11_112
GATEWAY_PORT: Final = 11_113
#: the gateway of this machine
GATEWAY: Final = f"grpc://{HOST}:{GATEWAY_PORT}"

#: names of destinations, client ids, and values that are stored: nodes of ZooKeeper, and parts of file names
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
