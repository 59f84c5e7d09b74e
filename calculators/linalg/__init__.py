"""Linear algebra: decompositions of matrices, systems of equations, and distances.

Each formula is that of the textbook algorithm of n^3 operations. Products inside an algorithm are not ``macs``, because
no matrix is multiplied by another.
"""
