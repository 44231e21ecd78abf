"""Listeners: the gateway, canal's protocol, their clients, and the addresses that commands may reach."""
