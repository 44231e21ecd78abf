"""Who is active: one server for a destination, one consumer for a client id.

Adapters of `actors.ports.Coordinator`: `zookeeper` for several machines, `local` for one. Whoever wins gets
an epoch that is higher than any before; the adapters refuse older ones. Nothing here knows what is served.
"""
