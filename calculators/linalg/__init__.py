"""Linear algebra: factorizations, systems of equations, eigenvalues and distances.

Each formula is that of the textbook algorithm of n^3 operations. Products inside an algorithm are not MACs, because no
matrix is multiplied by another.
"""
