"""What listens: the gateway, canal's protocol, whom they admit, and which addresses may be reached."""
