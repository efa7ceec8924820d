"""Audio of telephone lines over RTP: order, formats, digits, pacing."""
