"""Clients that measure a service from outside, through public protocols only."""
