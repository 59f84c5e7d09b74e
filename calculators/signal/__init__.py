"""Fourier transforms, windows and mel filters."""
