"""canal's protocol: packets and entries as protobuf messages, generated from the `.proto` files here."""
