"""Gateway: the way to one, from its address over TLS to the calls of consumers and operators."""
