"""Calls over SIP: what the library lacks of the protocol, offers and answers, and a call's leg."""
