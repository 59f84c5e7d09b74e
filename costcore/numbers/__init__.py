"""Integers and integer symbols: what is counted."""
