"""The table of Chainer's functions: one file of rows per operator family."""
