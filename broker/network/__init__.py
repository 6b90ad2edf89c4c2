"""Sockets: listeners, connections, ordered answers, limits."""
