"""Capture of a Chainer run through function hooks and link hooks."""
