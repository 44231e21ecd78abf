"""Coordination: elects one active server for a destination, and one active consumer for a client id.

Adapters of `canal_group.actors.ports.Coordinator`: `zookeeper` for several machines, `local` for one. The
winner gets an epoch that is higher than any before; the adapters refuse older ones. Nothing here knows what
is served.
"""
