"""The client side of a gateway: addresses, TLS, and the calls of consumers and operators."""
