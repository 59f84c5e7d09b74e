"""Gathering, scattering and reducing elements that indices, masks or segments select.

Equal indices are unknown, so an element that is selected twice is read twice.
"""
