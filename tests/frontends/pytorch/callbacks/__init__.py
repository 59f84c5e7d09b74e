"""Callbacks for training loops of other libraries."""
