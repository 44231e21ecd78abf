"""Gateway: the actor that consumers and operators call, and its way to the group and the shards."""
