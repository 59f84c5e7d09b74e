"""Gathering, scattering and reducing elements that indices, masks or segments select."""
