"""canal's protocol: a TCP server for canal's own clients, in the gateway's process."""
